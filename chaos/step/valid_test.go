package step

import (
	"slices"
	"strings"
	"testing"
)

// TestOneChange: every rule about a change alone, with its bounds. A mistake is one line, or the operator would look
// for a second one. want is part of it; "" = the change is valid.
func TestOneChange(t *testing.T) {
	block := func(direction, proto, verdict string, ports []uint16, remote ...string) Change {
		return Change{Block: &Block{Direction: direction, Proto: proto, Verdict: verdict, Ports: ports, Remote: remote}}
	}
	ofUser := func(c Change) Change {
		c.Block.UID = ptr(uint32(800))
		return c
	}
	file := func(f File) Change { return Change{File: &f} }
	mount := func(m Mount) Change { return Change{Mount: &m} }
	unit := func(u Unit) Change { return Change{Unit: &u} }
	hold := func(h Hold) Change { return Change{Hold: &h} }
	notify := func(unit, verb string) Change {
		return Change{File: &File{Path: "/etc/x", Absent: true}, Notify: []Notify{{unit, verb}}}
	}
	const ip, text = "10.0.0.1", "x"
	dns, full := []uint16{53}, strings.Repeat("x", maxText)
	for name, tc := range map[string]struct {
		c    Change
		want string
	}{
		"out":                     {block("out", "tcp", Drop, nil, ip), ""},
		"in":                      {block("in", "any", Drop, nil, ip), ""},
		"both":                    {block("both", "tcp", Drop, nil, ip), "direction"},
		"icmp":                    {block("out", "icmp", Drop, nil, ip), "proto"},
		"from nobody":             {block("out", "tcp", Drop, nil), "no remote"},
		"neighbours":              {block("out", "tcp", Drop, nil, "10.0.0.0/9", "10.128.0.0/9"), ""},
		"the same twice":          {block("out", "tcp", Drop, nil, ip, ip), "overlap"},
		"bits of a host":          {block("out", "tcp", Drop, nil, "10.0.0.1/8"), "neither"},
		"a zone":                  {block("out", "tcp", Drop, nil, "fe80::1%eth0"), "neither"},
		"port 0":                  {block("out", "tcp", Drop, []uint16{0}, ip), "port 0 is zero"},
		"a port twice":            {block("out", "tcp", Drop, []uint16{80, 443, 80}, ip), "port 80 is"},
		"two ports":               {block("out", "tcp", Drop, []uint16{80, 443}, ip), ""},
		"no verdict":              {block("out", "tcp", "", nil, ip), "verdict"},
		"reset":                   {block("out", "tcp", Reset, nil, ip), ""},
		"reset of udp":            {block("out", "udp", Reset, nil, ip), "only tcp"},
		"reset of any":            {block("out", "any", Reset, nil, ip), "only tcp"},
		"refuse udp":              {block("out", "udp", Refused, nil, ip), ""},
		"refuse what comes in":    {block("in", "udp", Refused, nil, ip), "only be dropped"},
		"reset what comes in":     {block("in", "tcp", Reset, nil, ip), "only be dropped"},
		"a user's":                {ofUser(block("out", "tcp", Drop, nil, ip)), ""},
		"a user's, in":            {ofUser(block("in", "tcp", Drop, nil, ip)), "no user"},
		"a user's answers":        {ofUser(block("in", "udp", NameError, dns, ip)), "no user"},
		"no such name":            {block("in", "udp", NameError, dns, ip), ""},
		"server failure":          {block("in", "udp", ServerFailure, dns, ip), ""},
		"answers that are sent":   {block("out", "udp", ServerFailure, dns, ip), "from port 53"},
		"answers by tcp":          {block("in", "tcp", NameError, dns, ip), "from port 53"},
		"answers of all ports":    {block("in", "udp", NameError, nil, ip), "from port 53"},
		"answers of two ports":    {block("in", "udp", NameError, []uint16{53, 54}, ip), "from port 53"},
		"answers by IPv6":         {block("in", "udp", NameError, dns, "fd00::1"), "by IPv4"},
		"answers of a name":       {block("in", "udp", NameError, dns, "resolver"), "neither"},
		"text":                    {file(File{Path: "/etc/x", Text: full, Mode: 0o7777, UID: ptr(0), GID: ptr(0)}), ""},
		"no text":                 {file(File{Path: "/etc/x"}), ""},
		"too much text":           {file(File{Path: "/etc/x", Text: full + "x"}), "longer than"},
		"no such mode":            {file(File{Path: "/etc/x", Text: text, Mode: 0o10000}), "mode 10000"},
		"sealed":                  {file(File{Path: "/etc/x", SHA256: "00"}), "without its text"},
		"text and link":           {file(File{Path: "/etc/x", Text: text, Link: "/y"}), "exclude"},
		"text and nothing":        {file(File{Path: "/etc/x", Text: text, Absent: true}), "exclude"},
		"link and nothing":        {file(File{Path: "/etc/x", Link: "/y", Absent: true}), "exclude"},
		"absent":                  {file(File{Path: "/etc/x", Absent: true}), ""},
		"absent with mode":        {file(File{Path: "/etc/x", Absent: true, Mode: 0o644}), "no mode and no owner"},
		"absent with user":        {file(File{Path: "/etc/x", Absent: true, UID: ptr(0)}), "no mode and no owner"},
		"absent with group":       {file(File{Path: "/etc/x", Absent: true, GID: ptr(0)}), "no mode and no owner"},
		"relative":                {file(File{Path: "etc/x", Absent: true}), "want an absolute one"},
		"the root":                {file(File{Path: "/", Absent: true}), "want an absolute one"},
		"a line's end":            {file(File{Path: "/etc/x\ny", Absent: true}), "want an absolute one"},
		"a zero byte":             {file(File{Path: "/etc/x\x00", Absent: true}), "want an absolute one"},
		"mounted text":            {mount(Mount{Target: "/etc/x", Text: full}), ""},
		"too much mounted text":   {mount(Mount{Target: "/etc/x", Text: full + "x"}), "longer than"},
		"mount on a relative":     {mount(Mount{Target: "etc/x", Text: text}), "want an absolute one"},
		"mount of a relative":     {mount(Mount{Target: "/etc/x", Source: "y"}), "want an absolute one"},
		"mount in a unit":         {mount(Mount{Target: "/etc/x", Source: "/y", Unit: "a.service"}), ""},
		"mount in no unit":        {mount(Mount{Target: "/etc/x", Source: "/y", Unit: "a"}), "by its full name"},
		"mount of nothing":        {mount(Mount{Target: "/etc/x"}), "exactly one of text"},
		"mount of two":            {mount(Mount{Target: "/etc/x", Text: text, Source: "/y"}), "exactly one of text"},
		"mount of a digest":       {mount(Mount{Target: "/etc/x", Text: text, SHA256: "00"}), "without its text"},
		"tmpfs of a page":         {mount(Mount{Target: "/mnt", Tmpfs: &Tmpfs{Bytes: 4096}}), ""},
		"tmpfs of less":           {mount(Mount{Target: "/mnt", Tmpfs: &Tmpfs{Bytes: 4095}}), "tmpfs of 4095"},
		"tmpfs of an inode":       {mount(Mount{Target: "/mnt", Tmpfs: &Tmpfs{Bytes: 8192, Inodes: 1}}), ""},
		"tmpfs of less than none": {mount(Mount{Target: "/mnt", Tmpfs: &Tmpfs{Bytes: 8192, Inodes: -1}}), "-1 inodes"},
		"restarted":               {unit(Unit{Unit: "a.service", State: Restarted, DropIn: text}), ""},
		"restarted as it is":      {unit(Unit{Unit: "a.service", State: Restarted}), "without a drop-in"},
		"restarted, no unit":      {unit(Unit{Unit: "a", State: Restarted, DropIn: text}), "by its full name"},
		"stopped":                 {unit(Unit{Unit: "a.timer", State: Stopped}), ""},
		"frozen, no unit":         {unit(Unit{Unit: "a", State: Frozen}), "by its full name"},
		"masked":                  {unit(Unit{Unit: "a.service", State: "masked"}), "want restarted"},
		"paused, no unit":         {Change{Pause: &Pause{"a"}}, "by its full name"},
		"nothing free":            {hold(Hold{Dir: "/var", Leave: ptr(int64(0))}), ""},
		"less than nothing free":  {hold(Hold{Dir: "/var", Leave: ptr(int64(-1))}), "negative"},
		"a percent":               {hold(Hold{Dir: "/var", Percent: 1}), ""},
		"all percents":            {hold(Hold{Dir: "/var", Percent: 100}), ""},
		"more than all":           {hold(Hold{Dir: "/var", Percent: 101}), "percent 101"},
		"less than none":          {hold(Hold{Dir: "/var", Percent: -1}), "percent -1"},
		"a hold of nothing":       {hold(Hold{Dir: "/var"}), "exactly one of leave"},
		"a hold of two":           {hold(Hold{Dir: "/var", Percent: 1, Inodes: true}), "exactly one of leave"},
		"a hold of a relative":    {hold(Hold{Dir: "var", Inodes: true}), "want an absolute one"},
		"reload":                  {notify("a.service", "reload"), ""},
		"restart":                 {notify("a.service", "restart"), ""},
		"start":                   {notify("a.service", "start"), "want reload or restart"},
		"notify no unit":          {notify("a", "reload"), "notify: unit"},
		"nothing":                 {Change{}, "exactly one of block"},
	} {
		err := tc.c.validate()
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: want one line with %q, got %v", name, tc.want, err)
		}
	}
}

// TestRunAndChecks: the rules about programs that a machine runs as root.
func TestRunAndChecks(t *testing.T) {
	whole := func() (Run, Check) {
		exec := Exec{Argv: []string{"/bin/x", "a"}}
		return Run{Place: "p", Tier: TierBoot, State: exec, Do: exec, Undo: exec}, Check{Name: "n", Exec: exec, Within: 1}
	}
	for want, spoil := range map[string]func(*Run, *Check){
		"":                         func(r *Run, _ *Check) { r.Tier = TierPersistent },
		"place is missing":         func(r *Run, _ *Check) { r.Place = "" },
		`tier "T1": want T2 or T3`: func(r *Run, _ *Check) { r.Tier = TierWatchdog },
		"white space":              func(r *Run, _ *Check) { r.Injected = "1\n" },
		"argv []":                  func(r *Run, _ *Check) { r.State.Argv = nil },
		`argv ["x"]`:               func(r *Run, _ *Check) { r.Undo.Argv = []string{"x"} },
		"zero byte":                func(r *Run, _ *Check) { r.Do.Argv = []string{"/bin/x", "a\x00b"} },
		"name is missing":          func(_ *Run, c *Check) { c.Name = "" },
		"within_ms is missing":     func(_ *Run, c *Check) { c.Within = 0 },
		`unit "u"`:                 func(_ *Run, c *Check) { c.Unit = "u" },
		`argv ["y"]`:               func(_ *Run, c *Check) { c.Exec.Argv = []string{"y"} },
	} {
		r, c := whole()
		spoil(&r, &c)
		err := r.validate()
		if err == nil {
			err = c.validate()
		}
		if (want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestUnitName: names become paths of drop-ins, and our own units are never changed.
func TestUnitName(t *testing.T) {
	for s, want := range map[string]bool{
		"a.service": true, "a.socket": true, "a.timer": true, "a.path": true, "a.target": true, `a-b_c:d@1.2\x2d.service`: true,
		"a.mount": false, "a": false, "": false, ".service": false, "service": false, "a/b.service": false,
		"a b.service": false, "gpuaasctl-reap.service": false, "gpuaasctl.service": true,
	} {
		if err := unitName(s); (err == nil) != want {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// TestPromises: what a change by itself can promise, and whether it is the operator's own way in.
func TestPromises(t *testing.T) {
	unit := func(name string) Change { return Change{Unit: &Unit{Unit: name, State: Stopped}} }
	for _, tc := range []struct {
		c    Change
		tier string
		held bool
		risk string // part of it
	}{
		{Change{Block: &Block{}}, TierKernel, false, ""},
		{Change{Pause: &Pause{"a.service"}}, TierWatchdog, true, ""},
		{Change{Hold: &Hold{Dir: "/var"}}, TierWatchdog, true, ""},
		{Change{Mount: &Mount{Target: "/etc/x"}}, TierBoot, false, ""},
		{Change{Run: &Run{Tier: TierBoot}}, TierBoot, false, ""},
		{Change{Run: &Run{Tier: TierPersistent}}, TierPersistent, false, "outlives a reboot"},
		{Change{File: &File{Path: "/run/x"}}, TierBoot, false, ""},
		{Change{File: &File{Path: "/dev/shm/x"}}, TierBoot, false, ""},
		{Change{File: &File{Path: "/runner/x"}}, TierPersistent, false, "outlives a reboot"},
		{unit("a.service"), TierBoot, false, ""},
		{unit("ssh.socket"), TierBoot, false, "own way in (ssh.socket)"},
		{unit("sshd@7.service"), TierBoot, false, "own way in (sshd@7.service)"},
		{unit("dropbear.service"), TierBoot, false, "own way in"},
		{unit("sshguard.service"), TierBoot, false, ""},
		{Change{Pause: &Pause{"sshd.service"}}, TierWatchdog, true, "own way in"},
	} {
		if tc.c.Tier() != tc.tier || tc.c.Held() != tc.held {
			t.Errorf("%s: tier %s, held %v", tc.c.Place(), tc.c.Tier(), tc.c.Held())
		}
		risk := Step{Tier: tc.tier, Changes: []Change{{Block: &Block{}}, tc.c}}.Risk()
		if (risk == "") != (tc.risk == "") || !strings.Contains(risk, tc.risk) {
			t.Errorf("%s: risk %q, want %q", tc.c.Place(), risk, tc.risk)
		}
	}
}

// TestNames: only a drop-in refers to a file, and only to the one that it has in its text.
func TestNames(t *testing.T) {
	drop := Change{Unit: &Unit{Unit: "a.service", DropIn: "[Service]\nEnvironmentFile=/etc/x\n", State: Restarted}}
	for _, tc := range []struct {
		c, other Change
		want     bool
	}{
		{drop, Change{File: &File{Path: "/etc/x"}}, true},
		{drop, Change{File: &File{Path: "/etc/y"}}, false},
		{drop, Change{Mount: &Mount{Target: "/etc/x"}}, false},
		{Change{File: &File{Path: "/etc/x"}}, Change{File: &File{Path: "/etc/x"}}, false},
	} {
		if got := tc.c.Names(tc.other); got != tc.want {
			t.Errorf("%s names %s: %v", tc.c.Place(), tc.other.Place(), got)
		}
	}
}

// TestClaims: a place is claimed once by a step, and Step finds it by its id only.
func TestClaims(t *testing.T) {
	s := Step{ID: "b", Changes: []Change{{Pause: &Pause{"a.service"}}, {Unit: &Unit{Unit: "a.service"}},
		{Hold: &Hold{Dir: "/var"}}}}
	if got := s.Claims(); !slices.Equal(got, []string{"unit:a.service", "disk:/var"}) {
		t.Errorf("%q", got)
	}
	d := Drill{Steps: []Step{{ID: "a"}, s}}
	if got, ok := d.Step("b"); !ok || got.ID != "b" || len(got.Changes) != 3 {
		t.Errorf("%+v %v", got, ok)
	}
	if got, ok := d.Step("c"); ok || got.ID != "" {
		t.Errorf("%+v %v", got, ok)
	}
}
