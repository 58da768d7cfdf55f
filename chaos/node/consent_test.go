package node

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

func TestParseConsent(t *testing.T) {
	c, err := ParseConsent("# ours\nnode = n1\nuntil=2027-01-01T00:00:00Z\n\ndisposable = yes\n")
	if err != nil || c.Node != "n1" || !c.Disposable || c.Until.Year() != 2027 {
		t.Fatal(c, err)
	}
	for text, want := range map[string]string{
		"":                       "must be there",
		"node = n1":              "must be there",
		"node n1":                "line 1: want key = value",
		"node =":                 "line 1: want key = value",
		"node = a\nnode = b":     "line 2",
		"node = a\nuntil = soon": "is not a time like",
		"node = a\nuntil = 2027-01-01T00:00:00Z\ndisposable = maybe": "yes or no",
		"node = a\nuntil = 2027-01-01T00:00:00Z\nhours = night":      `no key "hours"`,
	} {
		if _, err := ParseConsent(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestConsentPermits(t *testing.T) {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for want, spoil := range map[string]func(*Consent, *step.Drill){
		"":                     func(*Consent, *step.Drill) {},
		step.RefusedNode:       func(c *Consent, _ *step.Drill) { c.Node = "other" },
		step.RefusedExpired:    func(c *Consent, _ *step.Drill) { c.Until = now.Add(20 * time.Second) },
		step.RefusedDisposable: func(c *Consent, _ *step.Drill) { c.Disposable = false },
		step.RefusedClock:      func(_ *Consent, d *step.Drill) { d.At = now.Add(-time.Hour) },
	} {
		c, d := Consent{Node: "n", Until: now.Add(time.Hour), Disposable: true}, drillOf("r")
		d.At = now
		spoil(&c, &d)
		got := ""
		if r := c.Permits(d, now); r != nil {
			got = r.Code
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
