package step

import (
	"bytes"
	"io"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
)

func ptr[T any](v T) *T { return &v }

// whole has every kind of change.
func whole() Drill {
	return Drill{
		Schema: Schema, Run: "r1-7", Scenario: "everything", Node: "compute-node-01", By: "ann@laptop",
		At: time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC), TTL: 30_000, Disposable: true, Peers: []string{"10.0.0.9:50022"},
		Steps: []Step{
			{ID: "block", Fault: "net-block", Tier: TierKernel, Changes: []Change{
				{Block: &Block{Direction: "out", Proto: "tcp", Remote: []string{"10.231.77.11", "fd00::11"}, Ports: []uint16{443},
					Verdict: Drop}},
				{Block: &Block{Direction: "in", Proto: "udp", Remote: []string{"0.0.0.0/0", "::/0"}, Ports: []uint16{53},
					Verdict: Drop}},
				{Block: &Block{Direction: "out", Proto: "any", Remote: []string{"127.0.0.1"}, Ports: []uint16{6379, 6380},
					UID: ptr(uint32(800)), Verdict: Refused}},
				{Block: &Block{Direction: "out", Proto: "tcp", Remote: []string{"192.0.2.0/24"}, Verdict: Reset}},
				{Block: &Block{Direction: "in", Proto: "udp", Remote: []string{"10.231.77.10"}, Ports: []uint16{53},
					Verdict: NameError}},
			}},
			{ID: "file", Fault: "file", Tier: TierPersistent, Changes: []Change{
				{File: &File{Path: "/etc/hosts", Text: "127.0.0.1 localhost\n", Mode: 0o644}},
				{File: &File{Path: "/etc/gpuaas/key.pem", Text: "not to be shown", Secret: true, Yields: true}},
				{File: &File{Path: "/etc/nginx/edge.d/term.conf", Absent: true}, Notify: []Notify{{"nginx.service", "reload"}}},
				{File: &File{Path: "/run/systemd/system.control/x.service", Link: "/dev/null"}},
			}},
			{ID: "mount", Fault: "file", Tier: TierBoot, Changes: []Change{
				{Mount: &Mount{Target: "/etc/passwd", Unit: "gpuaas-node-agent.service", Text: "root:x:0:0::/root:/bin/sh\n"}},
				{Mount: &Mount{Target: "/var/lib/gpuaas/diag", Tmpfs: &Tmpfs{Bytes: 65536, Inodes: 8}, Writable: true}},
				{Mount: &Mount{Target: "/bin/dash", Source: "/bin/false"}},
			}},
			{ID: "unit", Fault: "service", Tier: TierBoot, Changes: []Change{
				{Unit: &Unit{Unit: "a.service", DropIn: "[Service]\nExecStart=\nExecStart=/bin/false\n", State: Restarted}},
				{Unit: &Unit{Unit: "b.service", DropIn: "[Unit]\nAssertPathExists=/nowhere\n", State: Stopped}},
				{Unit: &Unit{Unit: "c.service", State: Frozen}},
			}},
			{ID: "held", Fault: "disk", Tier: TierWatchdog, Changes: []Change{
				{Pause: &Pause{Unit: "d.service"}}, {Hold: &Hold{Dir: "/var", Leave: ptr(int64(0))}},
				{Hold: &Hold{Dir: "/srv", Percent: 95}}, {Hold: &Hold{Dir: "/run", Inodes: true}},
			}},
			{ID: "run", Fault: "redis", Tier: TierBoot,
				Changes: []Change{{Run: &Run{Place: "redis:maxclients", Tier: TierBoot, Injected: "maxclients\n1",
					State: Exec{Argv: []string{"/usr/bin/redis-cli", "CONFIG", "GET", "maxclients"}},
					Do:    Exec{Argv: []string{"/usr/bin/redis-cli", "CONFIG", "SET", "maxclients", "1"}},
					Undo:  Exec{Argv: []string{"/usr/bin/redis-cli", "CONFIG", "SET", "maxclients", "10000"}}}}},
				Verify: []Check{{Name: "ping", Exec: Exec{Argv: []string{"/usr/bin/redis-cli", "ping"}, Exits: []int{1}},
					Within: 1000}}},
		},
	}
}

func TestLinesGolden(t *testing.T) {
	d := whole()
	if err := d.Validate(); err != nil {
		t.Fatal(err)
	}
	var w strings.Builder
	for _, s := range d.Steps {
		for n, c := range s.Changes {
			do, undo := c.Lines(d.Run, s.ID, n, 30*time.Second)
			w.WriteString("== " + s.ID + " " + c.Tier() + " " + c.Place() + "\ndo:\n  " + strings.Join(do, "\n  ") +
				"\nundo:\n  " + strings.Join(undo, "\n  ") + "\n")
		}
	}
	golden(t, "lines.txt", w.String())
}

// golden compares with testdata/NAME.
func golden(t *testing.T, name, got string) {
	t.Helper()
	goldentest.Check(t, filepath.Join("testdata", name), got)
}

func TestEncodeDecode(t *testing.T) {
	d := whole()
	b := d.Encode()
	back, err := Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if again := back.Encode(); !bytes.Equal(again, b) {
		t.Errorf("%s\n%s", again, b)
	}
	for want, r := range map[string]io.Reader{
		"something follows it": strings.NewReader(string(b) + "{}"),
		"unknown":              strings.NewReader(strings.Replace(string(b), `"run"`, `"runn"`, 1)),
		"larger than":          bytes.NewReader(append(b, bytes.Repeat([]byte{' '}, MaxSize-len(b)+1)...)),
		"read drill: timeout":  iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader(b))),
	} {
		if _, err := Decode(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestValidateRefuses(t *testing.T) {
	for want, spoil := range map[string]func(*Drill){
		"schema":        func(d *Drill) { d.Schema = "v2" },
		"run":           func(d *Drill) { d.Run = "../x" },
		"ttl_ms: 500ms": func(d *Drill) { d.TTL = 500 },
		"ttl_ms: 0s":    func(d *Drill) { d.TTL = 0 },
		"no steps":      func(d *Drill) { d.Steps = nil },
		"by is missing": func(d *Drill) { d.By = "" },
		"file needs disposable: true, for it outlives a reboot (T3)": func(d *Drill) { d.Disposable = false },
		"unit needs disposable: true, for it takes the operator's own way in (sshd@1.service)": func(d *Drill) {
			d.Disposable, d.Steps[3].Changes[1].Unit.Unit = false, "sshd@1.service"
		},
		"held needs disposable: true, for it takes the operator's own way in (ssh.service)": func(d *Drill) {
			d.Disposable, d.Steps[4].Changes[0].Pause.Unit = false, "ssh.service"
		},
		"promises more":       func(d *Drill) { d.Steps[3].Tier = TierKernel },
		"the id is taken":     func(d *Drill) { d.Steps[1].ID = "block" },
		"is changed by step":  func(d *Drill) { d.Steps[3].Changes[0].Unit.Unit = "d.service" },
		"overlap":             func(d *Drill) { d.Steps[0].Changes[0].Block.Remote = []string{"10.0.0.0/8", "10.0.0.1"} },
		"from port 53":        func(d *Drill) { d.Steps[0].Changes[4].Block.Proto = "any" },
		"by IPv4":             func(d *Drill) { d.Steps[0].Changes[4].Block.Remote = []string{"fd00::53"} },
		"has no user yet":     func(d *Drill) { d.Steps[0].Changes[4].Block.UID = ptr(uint32(1)) },
		"neither an address":  func(d *Drill) { d.Steps[0].Changes[0].Block.Remote = []string{"node-api.gpuaas.test"} },
		"exactly one of bloc": func(d *Drill) { d.Steps[0].Changes[0].Pause = &Pause{"a.service"} },
		"without dots":        func(d *Drill) { d.Steps[1].Changes[0].File.Path = "/etc/../etc/hosts" },
		"absolute path":       func(d *Drill) { d.Steps[5].Changes[0].Run.Do.Argv[0] = "redis-cli" },
		"without a drop-in":   func(d *Drill) { d.Steps[3].Changes[0].Unit.DropIn = "" },
		"may be changed":      func(d *Drill) { d.Steps[3].Changes[0].Unit.Unit = "gpuaasctl-watch-r1.service" },
		"is not addr:port":    func(d *Drill) { d.Peers = []string{"10.0.0.1"} },
		"lease_ms":            func(d *Drill) { d.Lease = 100 },
	} {
		d := whole()
		spoil(&d)
		if err := d.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestCovers(t *testing.T) {
	peer := netip.MustParseAddrPort("10.0.0.9:50022")
	mapped := netip.MustParseAddrPort("[::ffff:10.0.0.9]:50022")
	for _, tc := range []struct {
		b    Block
		want bool
	}{
		{Block{Direction: "out", Proto: "tcp", Remote: []string{"10.0.0.9"}, Verdict: Drop}, true},
		{Block{Direction: "in", Proto: "any", Remote: []string{"0.0.0.0/0"}, Verdict: Drop}, true},
		{Block{Direction: "out", Proto: "tcp", Remote: []string{"10.0.0.0/24"}, Ports: []uint16{443}, Verdict: Drop}, false},
		{Block{Direction: "out", Proto: "tcp", Remote: []string{"10.0.0.0/24"}, Ports: []uint16{443, 50022}, Verdict: Drop},
			true},
		{Block{Direction: "out", Proto: "udp", Remote: []string{"0.0.0.0/0"}, Verdict: Drop}, false},
		{Block{Direction: "out", Proto: "tcp", Remote: []string{"::/0"}, Verdict: Drop}, false},
	} {
		for _, p := range [...]netip.AddrPort{peer, mapped} {
			if _, got := tc.b.Covers(p); got != tc.want {
				t.Errorf("%s covers %s: %v", tc.b.describe(), p, got)
			}
		}
	}
}

// TestMatch: the rule of nft for each protocol, with and without ports and a user.
func TestMatch(t *testing.T) {
	uid, ports := ptr(uint32(800)), []uint16{80, 443}
	for _, tc := range []struct {
		b    Block
		want string
	}{
		{Block{Proto: "any"}, ""},
		{Block{Proto: "any", UID: uid}, " meta skuid 800"},
		{Block{Proto: "any", Ports: ports}, " meta l4proto { tcp, udp } th dport { 80, 443 }"},
		{Block{Proto: "udp"}, " meta l4proto udp"},
		{Block{Proto: "tcp", Ports: ports, UID: uid}, " meta skuid 800 tcp dport { 80, 443 }"},
	} {
		if got := tc.b.match("d"); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.b, got, tc.want)
		}
	}
	for ttl, want := range map[time.Duration]string{time.Second: "1s", time.Second + 1: "2s", 2*time.Second - 1: "2s"} {
		b := Block{Remote: []string{"10.0.0.0/8", "fd00::1", "no address"}}
		if four, six := b.elements(true, ttl), b.elements(false, ttl); len(four) != 1 || len(six) != 1 ||
			four[0] != "10.0.0.0/8 timeout "+want || six[0] != "fd00::1 timeout "+want {
			t.Errorf("%v: %q, %q", ttl, four, six)
		}
	}
}

// TestBoundsOfLines: a plan says how much is filled, and how many inodes there are if there is a limit.
func TestBoundsOfLines(t *testing.T) {
	for want, c := range map[string]Change{
		"tmpfs of 4096 bytes over":              {Mount: &Mount{Target: "/mnt", Tmpfs: &Tmpfs{Bytes: 4096}}},
		"tmpfs of 4096 bytes and 1 inodes over": {Mount: &Mount{Target: "/mnt", Tmpfs: &Tmpfs{Bytes: 4096, Inodes: 1}}},
		"until 1% are in use":                   {Hold: &Hold{Dir: "/var", Percent: 1}},
		"to the last byte":                      {Hold: &Hold{Dir: "/var", Leave: ptr(int64(0))}},
		"until 1 bytes are free":                {Hold: &Hold{Dir: "/var", Leave: ptr(int64(1))}},
	} {
		if do, _ := c.Lines("r1", "a", 0, time.Minute); !strings.Contains(do[0], want) {
			t.Errorf("%q, want %q", do, want)
		}
	}
}
