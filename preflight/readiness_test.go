package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// readiness judges hop 5 of a healthy node with one changed fact.
func readiness(t *testing.T, step string, change func(f *diag.Fact)) diag.HopResult {
	t.Helper()
	e := testEnv()
	plan := testPlan(e)
	h := hop.In(hops.BuiltIn().List(), diag.HopNodeReadiness)
	var facts []diag.Fact
	for _, s := range h.Steps {
		req := s.Ask(e, nil)
		req.ID = hop.FactID(h.ID, s.Name)
		f := healthy(req)
		if s.Name == step {
			change(&f)
		}
		facts = append(facts, f)
	}
	return verdict.AssessHop(h, hops.BuiltIn().NewCase(e.Subject, plan, diag.EndedCompleted, facts),
		func(id diag.HopID) diag.Status {
			return map[diag.HopID]diag.Status{diag.HopNodeOpsAccess: diag.StatusPass}[id]
		})
}

// TestCrashLoop: a loop is judged by the restarts within a period; an intended restart does not count.
func TestCrashLoop(t *testing.T) {
	num, long := func(n int) *int { return &n }, func(n int64) *int64 { return &n }
	type unit = diag.UnitFacts
	for name, c := range map[string]struct {
		unit unit
		want diag.Status
		text string
	}{
		"never restarted":            {unit{UptimeS: long(0), Restarts: num(0)}, diag.StatusPass, ""},
		"nothing measured":           {unit{}, diag.StatusPass, ""},
		"restarts without an uptime": {unit{Restarts: num(50)}, diag.StatusPass, ""},
		"fifty restarts, long ago":   {unit{Restarts: num(50), UptimeS: long(86400)}, diag.StatusPass, ""},
		"one restart, just now": {
			unit{Restarts: num(1), UptimeS: long(0), Later: &diag.UnitLook{Active: "active", PID: 42, Restarts: num(1)}},
			diag.StatusPass, "",
		},
		"one restart, by the journal": {
			unit{Restarts: num(1), UptimeS: long(2), Recent: &diag.UnitRestarts{WithinS: 600, Count: 1}}, diag.StatusPass, "",
		},
		"restarted during the walk": {
			unit{Restarts: num(1), UptimeS: long(2), Later: &diag.UnitLook{Active: "active", PID: 43, Restarts: num(2)}},
			diag.StatusPass, "",
		},
		"restarted by hand meanwhile": {
			unit{Restarts: num(7), UptimeS: long(2), Later: &diag.UnitLook{Active: "active", PID: 43, Restarts: num(0)}},
			diag.StatusPass, "",
		},
		"no journal, and it stays up": {
			unit{Restarts: num(5), UptimeS: long(3), Later: &diag.UnitLook{Active: "active", PID: 42, Restarts: num(5)}},
			diag.StatusWarn, "restarted 5 times by systemd since",
		},
		"no journal, no second look": {unit{Restarts: num(5), UptimeS: long(3)}, diag.StatusPass, ""},
		"no journal, settled":        {unit{Restarts: num(5), UptimeS: long(60)}, diag.StatusPass, ""},
		"another process": {
			unit{Restarts: num(5), UptimeS: long(0),
				Later: &diag.UnitLook{AfterMS: 1200, Active: "active", PID: 43, Restarts: num(6)}}, diag.StatusFail,
			"process 42 was replaced by 43 within 1200 ms",
		},
		"ended meanwhile": {
			unit{Restarts: num(5), UptimeS: long(1),
				Later: &diag.UnitLook{AfterMS: 900, Active: "activating", Sub: "auto-restart", Restarts: num(5)}}, diag.StatusFail,
			"process 42 ended within 900 ms",
		},
		"every two minutes": {
			unit{Restarts: num(40), UptimeS: long(70), Recent: &diag.UnitRestarts{WithinS: 600, Count: 5, EveryS: long(120)}},
			diag.StatusFail, "5 times by systemd in the last 10 minutes, every 120 s",
		},
		"ten a second": {
			unit{Restarts: num(900), UptimeS: long(0), Recent: &diag.UnitRestarts{WithinS: 600, Count: 700, EveryS: long(0)}},
			diag.StatusFail, "crash loop",
		},
		"a loop under a limit of the unit": {
			unit{Restarts: num(900), UptimeS: long(0), Recent: &diag.UnitRestarts{WithinS: 600, Count: 700, EveryS: long(0)},
				MaxOpenFiles: num(16)},
			diag.StatusFail, "its unit allows it 16 open files (LimitNOFILE)",
		},
		"a limit alone": {unit{Restarts: num(0), UptimeS: long(60), MaxOpenFiles: num(16)}, diag.StatusPass, ""},
		"a loop that has ended": {
			unit{Restarts: num(6), UptimeS: long(40), Recent: &diag.UnitRestarts{WithinS: 600, Count: 6, EveryS: long(2)}},
			diag.StatusWarn, "up for 40 s now",
		},
		"two crashes in ten minutes": {
			unit{Restarts: num(2), UptimeS: long(40), Recent: &diag.UnitRestarts{WithinS: 600, Count: 2, EveryS: long(200)}},
			diag.StatusPass, "",
		},
		"old restarts, one in an hour": {
			unit{Restarts: num(9), UptimeS: long(30), Recent: &diag.UnitRestarts{WithinS: 600, Count: 1}}, diag.StatusPass, "",
		},
		"old restarts, one just now": {
			unit{Restarts: num(9), UptimeS: long(3), Recent: &diag.UnitRestarts{WithinS: 600, Count: 1},
				Later: &diag.UnitLook{Active: "active", PID: 42, Restarts: num(9)}}, diag.StatusPass, "",
		},
		"its last start was by an exec": {unit{Restarts: num(0), UptimeS: long(1)}, diag.StatusPass, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := readiness(t, hop.StepProcess, func(f *diag.Fact) {
				u := c.unit
				u.Active, u.Sub, u.PID, u.ProcessState = "active", "running", 42, "S"
				f.Unit = &u
			})
			if r.Status != c.want || !strings.Contains(r.Text, c.text) {
				t.Errorf("%s %q, want %s %q", r.Status, r.Text, c.want, c.text)
			}
			if c.want == diag.StatusWarn && r.Signal != "" {
				t.Errorf("a warning of what is over has the signal %s", r.Signal)
			}
			if c.want == diag.StatusFail && (r.Signal != diag.SigProcessDown || !r.Direct) {
				t.Errorf("%+v", r.Finding)
			}
		})
	}
}

// TestWhoseAgent: a program that is not gpuaas-agent is a fault only if the profile says that the agent is.
func TestWhoseAgent(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		ours *bool
		req  diag.Request
		want diag.Status
	}{
		"ours": {
			&yes, diag.Request{Target: "/usr/local/bin/gpuaas-agent", Unit: "gpuaas-node-agent.service"}, diag.StatusPass,
		},
		"not ours at our place": {
			&no, diag.Request{Target: "/usr/local/bin/gpuaas-agent", Unit: "gpuaas-node-agent.service"}, diag.StatusFail,
		},
		"not known": {
			nil, diag.Request{Target: "/usr/local/bin/gpuaas-agent", Unit: "gpuaas-node-agent.service"}, diag.StatusPass,
		},
		"our older build's name": {
			&no, diag.Request{Target: "/opt/gpuaas-agent-oldterminal", Unit: "gpuaas-node-agent.service"}, diag.StatusFail,
		},
		"a foreign program": {&no, diag.Request{Target: "/usr/local/bin/fleetd", Unit: "gpuaas-node-agent.service"},
			diag.StatusPass},
		"a foreign unit": {&no, diag.Request{Target: "/usr/local/bin/gpuaas-agent", Unit: "kubelet.service"},
			diag.StatusPass},
		"foreign by its own command": {
			&no, diag.Request{Target: "/usr/local/bin/gpuaas-agent", Unit: "gpuaas-node-agent.service",
				VersionCommand: []string{"x"}}, diag.StatusPass,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := readiness(t, "binary", func(f *diag.Fact) {
				id := f.ID
				f.Request, f.Request.ID, f.Request.Op = c.req, id, diag.OpBinary
				f.Binary = &diag.BinaryFacts{Path: c.req.Target, Kind: "elf", OurAgent: c.ours}
			})
			if r.Status != c.want || (c.want == diag.StatusFail &&
				(r.Signal != diag.SigBinaryInvalid || !strings.Contains(r.Text, "not gpuaas-agent"))) {
				t.Errorf("%s %q, want %s", r.Status, r.Text, c.want)
			}
		})
	}
}

// TestRootDisk: the root file system is judged in addition to the record's, once, and missing write permission there is
// not a fault.
func TestRootDisk(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *diag.Fact)
		want   diag.Status
		signal diag.Signal
		text   string
	}{
		"its own file system": {func(*diag.Fact) {}, diag.StatusPass, "", "root file system 50% used"},
		"the record's": {func(f *diag.Fact) { f.Disk.SameAs, f.Disk.UsedPercent = "/var/lib/gpuaas/diag", 99 },
			diag.StatusPass, "", "disk 50% used and writable, agent"},
		"full": {func(f *diag.Fact) { f.Failure, f.Phase, f.Errno = diag.DiskFull, "write", "ENOSPC" },
			diag.StatusFail, diag.SigDiskFull, "a write of 8192 bytes at / fails"},
		"no inodes": {func(f *diag.Fact) { f.Failure, f.Phase = diag.DiskInodes, "write" }, diag.StatusFail,
			diag.SigDiskFull, "at / fails"},
		"nearly full": {func(f *diag.Fact) { f.Disk.UsedPercent = 97 }, diag.StatusFail, diag.SigDiskPressure,
			"97% of the disk at / is used"},
		"not writable here": {func(f *diag.Fact) { f.Failure, f.Phase = diag.NotPermitted, "write" }, diag.StatusPass, "",
			"root file system 50% used"},
		"that, and nearly full": {func(f *diag.Fact) {
			f.Failure, f.Phase, f.Disk.UsedPercent = diag.NotPermitted, "write", 97
		}, diag.StatusFail,
			diag.SigDiskPressure, "97% of the disk at / is used"},
		"an image": {func(f *diag.Fact) {
			f.Failure, f.Disk.ReadOnly, f.Disk.UsedPercent, f.Disk.FreeBytes = diag.DiskReadOnly, true, 100, 0
		}, diag.StatusPass, "", "100% used, read-only"},
		"no statfs": {func(f *diag.Fact) { f.Failure, f.Phase, f.Disk = diag.NotPermitted, "stat", nil },
			diag.StatusInconclusive, "", ""},
		"it answered": {func(f *diag.Fact) { f.Failure, f.Phase = diag.FileUnreadable, "write" }, diag.StatusInconclusive, "",
			""},
	} {
		t.Run(name, func(t *testing.T) {
			r := readiness(t, "root_disk", c.change)
			if r.Status != c.want || r.Signal != c.signal || !strings.Contains(r.Text, c.text) {
				t.Errorf("%s %s %q %s, want %s %s %q", r.Status, r.Signal, r.Text, r.Because, c.want, c.signal, c.text)
			}
		})
	}
}

// TestALoopThatHasEnded: a warning about a crash loop that has ended needs no action, and no reason claims that the
// agent is down.
func TestALoopThatHasEnded(t *testing.T) {
	r := walkWith(t, map[string]func(*diag.Fact){
		"node_readiness/process": func(f *diag.Fact) {
			restarts, up, every := 6, int64(40), int64(2)
			f.Unit.Restarts, f.Unit.UptimeS = &restarts, &up
			f.Unit.Recent = &diag.UnitRestarts{WithinS: 600, Count: 6, EveryS: &every}
		},
	})
	if h := hopOf(r, diag.HopNodeReadiness); h.Status != diag.StatusWarn {
		t.Errorf("%+v", h)
	}
	if r.Verdict.Outcome == diag.OutcomeFail || r.Verdict.Reason != diag.ReasonNone {
		t.Errorf("outcome %s, reason %s", r.Verdict.Outcome, r.Verdict.Reason)
	}
}
