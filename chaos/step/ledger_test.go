package step

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// armed returns the ledger of a drill with a TTL of 30 s and a lease of 20 s, armed at 100 s of boot "b".
func armed() Ledger {
	d := whole()
	d.Lease = 20_000
	return Read([]Entry{
		{Seq: 1, Boot: "b", Event: EventDrill, Note: d.Encode()},
		{Seq: 2, Boot: "b", BootNS: 100e9, Event: EventArmed},
	})
}

func TestExpired(t *testing.T) {
	const s = int64(time.Second)
	for name, tc := range map[string]struct {
		boot         string
		now, renewed int64
		left         time.Duration
		why          string
	}{
		"just armed":              {"b", 100 * s, 0, 20 * time.Second, ""},
		"never renewed":           {"b", 120 * s, 0, 0, WhyLease},
		"renewed":                 {"b", 120 * s, 115 * s, 10 * time.Second, ""},
		"renewed for ever":        {"b", 130 * s, 130 * s, 0, WhyTTL},
		"the last nanosecond":     {"b", 130*s - 1, 130*s - 1, 1, ""},
		"both are over":           {"b", 130 * s, 110 * s, 0, WhyTTL}, // what the drill wanted, not what went wrong
		"renewed just now":        {"b", 110 * s, 110 * s, 20 * time.Second, ""},
		"another boot":            {"c", 101 * s, 101 * s, 0, WhyReboot},
		"the clock began again":   {"b", 5 * s, 0, 0, WhyClock},
		"a renewal in the future": {"b", 101 * s, 500 * s, 0, WhyClock},
	} {
		l := armed()
		if got := l.Expired(tc.boot, tc.now, tc.renewed); got != tc.why {
			t.Errorf("%s: %q, want %q", name, got, tc.why)
		}
		if left, _ := l.Remaining(tc.boot, tc.now, tc.renewed); tc.why == "" && left != tc.left {
			t.Errorf("%s: %v left, want %v", name, left, tc.left)
		}
	}
	if got := (Drill{}).LeaseFor(); got != 20*time.Second || (Drill{Lease: 7000}).LeaseFor() != 7*time.Second {
		t.Errorf("a drill without a lease of its own has %v", got)
	}
	if why := (Ledger{Boot: "b"}).Expired("b", 1, 0); why != WhyUnarmed {
		t.Errorf("never armed: %q", why)
	}
}

func TestSecretsStayOnTheMachine(t *testing.T) {
	d := whole()
	if got := string(d.Redacted().Encode()); strings.Contains(got, "not to be shown") ||
		!strings.Contains(string(d.Encode()), "not to be shown") {
		t.Error("redacted is not")
	}
	if got := string(d.Redacted().Encode()); !strings.Contains(got, `root:x:0:0::/root`) {
		t.Errorf("a mount that has no secret is redacted: %s", got)
	}
	// In a journal, too, and only the drill's entry is changed.
	other, torn := Entry{Event: EventChange, Note: d.Encode()}, Entry{Event: EventDrill, Note: json.RawMessage(`{"steps":7}`)}
	all := []Entry{{Event: EventDrill, Note: d.Encode()}, other, torn}
	got := RedactEntries(all)
	if strings.Contains(string(got[0].Note), "not to be shown") || !strings.Contains(string(got[0].Note), `"run":"r1-7"`) ||
		!reflect.DeepEqual(got[1:], []Entry{other, torn}) || string(all[0].Note) != string(d.Encode()) {
		t.Errorf("%s", got[0].Note)
	}
}
