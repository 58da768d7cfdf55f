//go:build linux

package e2e

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestTenantHasAUnitOfItsOwn: a tenant gets nothing of the agent's sandbox, control group and limits, and the
// agent's unit is restricted as far as a node allows.
func TestTenantHasAUnitOfItsOwn(t *testing.T) {
	l := needLab(t)
	machine := ownNode(t, l)
	green(t, machine)
	s := openTerminal(t, l, machine)
	unit := sessionUnits(t, l, machine)
	if !regexp.MustCompile(`^gpuaas-session-u2001-[a-z0-9]{8}\.service$`).MatchString(unit) {
		t.Fatalf("the session's unit: %q", unit)
	}
	if group := s.do("cat /proc/self/cgroup"); !strings.Contains(group, "/gpuaas.slice/gpuaas-sessions.slice/"+unit) ||
		strings.Contains(group, "gpuaas-node-agent") {
		t.Errorf("its control group: %s", group)
	}
	hosts := on(t, l, machine, `grep -E '^(CapBnd|Seccomp_filters):' /proc/1/status`) // nspawn has a filter, too
	status := s.do(
		`grep -E '^(NoNewPrivs|CapEff|CapBnd|Seccomp_filters):' /proc/self/status; tty; ps -o stat= -p $$; echo "$0"; id -u; env | sort | cut -d= -f1 | tr '\n' ' '`)
	for _, want := range append(strings.Split(strings.TrimSpace(hosts), "\n"), "NoNewPrivs:\t0",
		"CapEff:\t0000000000000000", "/dev/pts/", "-bash", "2001", "HOME LANG LOGNAME PATH PWD SHELL SHLVL TERM USER _ ") {
		if !strings.Contains(status, want) {
			t.Errorf("no %q in %s", want, status)
		}
	}
	agents := on(t, l, machine,
		`grep -E '^(NoNewPrivs|CapBnd|Seccomp_filters):' /proc/$(systemctl show -P MainPID gpuaas-node-agent)/status`)
	if !strings.Contains(agents, "NoNewPrivs:\t1") || strings.Contains(agents, hosts) {
		t.Errorf("the agent itself: %s", agents)
	}
	shown := on(t, l, machine,
		"systemctl show -p TasksMax -p MemoryMax -p CPUWeight -p OOMPolicy -p OOMScoreAdjust -p Slice "+unit)
	for _, want := range []string{"TasksMax=4096", "CPUWeight=50", "OOMPolicy=continue", "OOMScoreAdjust=500",
		"Slice=gpuaas-sessions.slice"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %s in %s", want, shown)
		}
	}
	if strings.Contains(shown, "MemoryMax=infinity") {
		t.Errorf("no limit of memory: %s", shown)
	}
	for where, units := range map[string]string{machine: "gpuaas-node-agent.service",
		platform: "gpuaas-platform.service"} {
		out := on(t, l, where, "systemd-analyze security --no-pager "+units+" | tail -n 1")
		m := regexp.MustCompile(`level for \S+ ([0-9.]+) `).FindStringSubmatch(strings.ReplaceAll(out, ":", ""))
		if m == nil {
			t.Fatalf("%s has no score: %s", units, out)
		}
		if score, err := strconv.ParseFloat(m[1], 64); err != nil || score > 5.0 {
			t.Errorf("%s: exposure %s, more than 5.0", units, m[1])
		} else {
			t.Logf("%s: exposure %s", units, m[1])
		}
	}
	s.leave()
	gone(t, "the session's unit", func() string { return sessionUnits(t, l, machine) })
}

// TestTenantForgesTheJournal: a tenant's log lines, under any name, never count as the agent's, neither for a probe
// nor for a drill's probe nor for the restart count.
func TestTenantForgesTheJournal(t *testing.T) {
	l := needLab(t)
	machine := ownNode(t, l)
	green(t, machine)
	const canary = "task_result works again, says a tenant"
	since := "--since=@" + strings.TrimSpace(on(t, l, machine, "date +%s"))
	s := openTerminal(t, l, machine)
	s.do(`ln -sf /usr/bin/sudo ~/gpuaas-agent; cp /usr/bin/logger ~/logger; cd ~`)
	for _, forge := range []string{
		`logger "C 1"`,
		`logger -t gpuaas-agent -p daemon.info "C 2"`,
		`logger --id=$(systemctl show -P MainPID gpuaas-node-agent) "C 3"`,
		`(exec -a /usr/local/bin/gpuaas-agent ./logger "C 4")`,
		`systemd-cat -t gpuaas-agent echo "C 5"`,
		`printf 'MESSAGE=C 6\nUNIT=gpuaas-node-agent.service\nOBJECT_SYSTEMD_UNIT=gpuaas-node-agent.service\nCOREDUMP_UNIT=gpuaas-node-agent.service\n_SYSTEMD_UNIT=gpuaas-node-agent.service\n_UID=0\n_PID=1\n' | logger --journald`,
		`printf 'MESSAGE=C 7\nMESSAGE_ID=5eb03494b6584870a536b337290809b3\nUNIT=gpuaas-node-agent.service\n' | logger --journald`,
		`~/gpuaas-agent -n "C 8" </dev/null`,
		`systemd-cat ~/gpuaas-agent -n "C 9" </dev/null`,
		`GPUAAS_API_URL="C 10" systemd-cat /usr/local/bin/gpuaas-agent run`,
		`GPUAAS_NODE_ID=x GPUAAS_API_URL=https://x GPUAAS_TERMINAL_MIN_UID="C 11" systemd-cat /usr/local/bin/gpuaas-agent run`,
	} {
		s.do(strings.ReplaceAll(forge, "C ", canary+" "))
	}
	on(t, l, machine, "journalctl --sync")
	if all := on(t, l, machine, "journalctl -q -o cat "+since+" | grep -c '"+canary+
		"'"); strings.TrimSpace(all) == "0" {
		t.Fatal("nothing was forged: the test shows nothing")
	} else {
		t.Logf("%s forged lines are in the journal", strings.TrimSpace(all))
	}
	facts := on(t, l, machine,
		`rm -f /run/probe.out; (echo '{"id":"1","op":"journal","target":"gpuaas-node-agent.service","limit":5000}'; `+
			eventually(`grep -q '"id":"1"' /run/probe.out`)+`) | /usr/local/bin/gpuaas-agent probe >/run/probe.out; cat /run/probe.out; rm /run/probe.out`)
	if !strings.Contains(facts, "agent starts") || strings.Contains(facts, canary) {
		t.Errorf("the probe believes: %s\n%.2000s", lineWith(facts, canary), facts)
	}
	timeline, _, _ := try(t, time.Minute, "diag", "timeline", machine, "--profile", "lab", "--since", "5m", "-o", "json")
	if len(timeline) < 1000 || strings.Contains(string(timeline), canary) {
		t.Errorf("the timeline of %d bytes believes: %s", len(timeline), lineWith(string(timeline), canary))
	}
	look := on(t, l, machine,
		`journalctl -u gpuaas-node-agent.service `+since+` -o cat --no-pager _PID=$(systemctl show -P MainPID gpuaas-node-agent)`)
	if strings.Contains(look, canary) || !strings.Contains(look, "terminal session") {
		t.Errorf("a drill believes: %s", lineWith(look, canary))
	}
	restarts := "MESSAGE_ID=5eb03494b6584870a536b337290809b3 UNIT=gpuaas-node-agent.service -q -o cat " + since
	if forged := on(t, l, machine, "journalctl "+restarts); !strings.Contains(forged, canary) {
		t.Errorf("no restart was forged: %s", forged)
	}
	if counted := on(t, l, machine, "journalctl _PID=1 "+restarts); strings.Contains(counted, canary) {
		t.Errorf("a forged restart counts: %s", counted)
	}
}

// lineWith is the line that holds a text, shortened.
func lineWith(text, has string) string {
	for line := range strings.Lines(text) {
		if i := strings.Index(line, has); i >= 0 {
			return line[max(0, i-300):min(len(line), i+300)]
		}
	}
	return "(no line)"
}

// escapes leave a session in every way that a tenant has, and have the agent's name.
const escapes = `rm -f ~/gpuaas-agent; cp /usr/bin/sleep ~/gpuaas-agent
nohup ~/gpuaas-agent 7001 >/dev/null 2>&1 &
setsid sh -c 'setsid ~/gpuaas-agent 7002 & exit' </dev/null >/dev/null 2>&1
(trap '' HUP TERM INT; exec -a gpuaas-agent sleep 7003) &
sh -c 'trap "" HUP TERM; (while :; do sleep 0.2; done) & disown; exit' 2>/dev/null
systemd-run --user --unit=gpuaas-node-agent sleep 7004 2>&1 | head -1
systemd-run --scope sleep 7005 2>&1 </dev/null | head -1
(while :; do (sleep 0.3 &) ; sleep 0.1; done) &
sleep 1`

// TestTenantEscapes: a process that leaves its session, its parent and its name ends with the session, and the
// agent survives.
func TestTenantEscapes(t *testing.T) {
	l := needLab(t)
	machine := ownNode(t, l)
	green(t, machine)
	agent := on(t, l, machine, "systemctl show -P MainPID gpuaas-node-agent")
	t.Run("the window is closed", func(t *testing.T) {
		s := openTerminal(t, l, machine)
		s.do(escapes)
		if n := strings.Count(processes(t, l, machine), "\n"); n < 5 {
			t.Fatalf("only %d processes escaped:\n%s", n+1, processes(t, l, machine))
		}
		s.leave()
		gone(t, "processes of the tenant", func() string { return processes(t, l, machine) })
		gone(t, "its unit", func() string { return sessionUnits(t, l, machine) })
	})
	t.Run("the shell exits", func(t *testing.T) {
		s := openTerminal(t, l, machine)
		s.do(escapes)
		s.write("exit 3\nexit 3\n") // the first only warns of running jobs
		t.Logf("the shell says %q", s.rest())
		gone(t, "processes of the tenant", func() string { return processes(t, l, machine) })
	})
	if now := on(t, l, machine, "systemctl show -P MainPID gpuaas-node-agent"); now != agent {
		t.Errorf("the agent was process %s, and is %s", agent, now)
	}
	t.Run("the agent is killed", func(t *testing.T) {
		s := openTerminal(t, l, machine)
		s.do("trap '' HUP TERM\n" + escapes)
		on(t, l, machine, "kill -KILL $(systemctl show -P MainPID gpuaas-node-agent)")
		gone(t, "processes of the tenant", func() string { return processes(t, l, machine) })
		gone(t, "its unit", func() string { return sessionUnits(t, l, machine) })
	})
	green(t, machine)
}

// TestTenantForkBomb: a fork bomb hits the session's limit, a concurrent walk passes, and the bomb ends with the
// session.
func TestTenantForkBomb(t *testing.T) {
	l := needLab(t)
	do, undo := agentEnv("GPUAAS_TERMINAL_TASKS_MAX", "150")
	t.Cleanup(func() { on(t, l, node, undo) })
	on(t, l, node, do)
	green(t, node)
	s := openTerminal(t, l, node)
	s.write("f() { f | f & }; f 2>/dev/null; while :; do f 2>/dev/null; done\n")
	most := 0
	for began := time.Now(); time.Since(began) < settle && (most < 100 || time.Since(began) < 5*time.Second); {
		time.Sleep(time.Second)
		most = max(most, strings.Count(on(t, l, node, "pgrep -u tenant01 || true"), "\n"))
	}
	if most < 100 || most > 200 {
		t.Errorf("%d processes of the tenant at most: want 150, and not all that the node can bear", most)
	}
	r, code, _ := walk(t, node)
	if heard := describe(r); code != 0 && !strings.Contains(heard, "workload_terminal") {
		t.Errorf("beside a fork bomb: exit %d\n%s", code, heard)
	}
	s.leave()
	gone(t, "the fork bomb", func() string { return processes(t, l, node) })
	green(t, node)
}
