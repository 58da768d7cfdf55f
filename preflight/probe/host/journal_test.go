//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

// entry returns systemd's entry about a unit in the format of journalctl.
func entry(us int64, message string) string {
	return fmt.Sprintf(
		`{"__CURSOR":"s=1","__REALTIME_TIMESTAMP":"%d","PRIORITY":"6","_BOOT_ID":"b1","_UID":"0","MESSAGE":%s}`, us, message)
}

// TestJournalBelievesTheUnitsProcess: a line of a unit is written by its own program or by systemd. Lines that a tenant
// logged in the unit's control group, with whatever program and name, are counted and not shown.
func TestJournalBelievesTheUnitsProcess(t *testing.T) {
	kit.NeedsRoot(t)
	f := kit.NewFakes(t)
	dir := rootsFolder(t)
	write := func(name string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // WriteFile drops set-id bits, and applies the umask
			t.Fatal(err)
		}
		return path
	}
	agent, sudo := write("gpuaas-agent", 0o755), write("gpuaas-agent-sudo", 0o755|os.ModeSetuid)
	open := filepath.Join(dir, "open")
	if err := errors.Join(os.Mkdir(open, 0o755), os.Chmod(open, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	const unit = "gpuaas-node-agent.service"
	f.Unit(t, unit, kit.RunningUnit(os.Getpid(),
		"ExecStart={ path="+agent+" ; argv[]="+agent+" run ; ignore_errors=no }")...)
	by := func(message, unit, uid, exe, transport, more string) string {
		return fmt.Sprintf(
			`{"__REALTIME_TIMESTAMP":"1","MESSAGE":%q,"_SYSTEMD_UNIT":%q,"_UID":%q,"_EXE":%q,"_TRANSPORT":%q%s}`,
			message, unit, uid, exe, transport, more)
	}
	gone := `{"__REALTIME_TIMESTAMP":"1","MESSAGE":"agent: ended at once","_SYSTEMD_UNIT":"` + unit +
		`","_UID":"0","_TRANSPORT":"stdout"}`
	entries := []string{
		by("agent: says", unit, "0", agent, "stdout", ""),
		by("agent: an earlier build", unit, "0", filepath.Join(dir, "builds/1234/gpuaas-agent"), "stdout", ""),
		by("agent: the build of a drill", unit, "0", filepath.Join(dir, "gpuaas-agent-oldterminal"), "stdout", ""),
		by("agent: systemd about it", "init.scope", "0", "/usr/lib/systemd/systemd", "journal", ""),
		gone,
		by("forged: logger", unit, "2001", "/usr/bin/logger", "syslog", `,"_COMM":"gpuaas-agent"`),
		by("forged: the agent's own program, by a tenant", unit, "2001", agent, "stdout", ""),
		by("forged: sudo's refusal", unit, "0", sudo, "syslog", `,"_COMM":"gpuaas-agent"`),
		by("forged: sudo's refusal, by another name", unit, "0", "/usr/bin/sudo", "stdout", `,"_COMM":"gpuaas-agent"`),
		by("forged: from where everybody may write", unit, "0", filepath.Join(open, "gpuaas-agent"), "stdout", ""),
		by("forged: ended at once", unit, "2001", "", "stdout", ""),
		by("forged: ended at once, by syslog", unit, "0", "", "syslog", ""),
		`{"__REALTIME_TIMESTAMP":"1","MESSAGE":"forged: by no one","_SYSTEMD_UNIT":"` + unit + `"}`,
		by("forged: a tenant's unit", "user@2001.service", "2001", agent, "journal", `,"UNIT":"`+unit+`"`),
	}
	f.Script(t, "journalctl", "cat <<'END'\n"+strings.Join(entries, "\n")+"\nEND")
	fact := run(t, diag.Request{Op: diag.OpJournal, Target: unit})
	if !fact.Passed() {
		t.Fatalf("%+v", fact)
	}
	for _, l := range fact.Journal.Lines {
		if !strings.HasPrefix(l.Text, "agent: ") {
			t.Errorf("believed: %s", l.Text)
		}
	}
	if n := len(fact.Journal.Lines); n != 5 || fact.Journal.Foreign != len(entries)-5 {
		t.Errorf("%d lines are the agent's, and %d foreign: %+v", n, fact.Journal.Foreign, fact.Journal.Lines)
	}
}

// rootsFolder returns a folder that, like those above it, only root can have written to.
func rootsFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/lib", "gpuaas-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if !rootsOnly(dir) {
		t.Skipf("skipped: others may write above %s", dir)
	}
	return dir
}

func TestJournalOfAUnit(t *testing.T) {
	f := kit.NewFakes(t)
	argvFile := filepath.Join(f.Dir, "argv")
	f.Script(t, "journalctl", "echo \"$@\" >"+argvFile+"\ncat <<'END'\n"+strings.Join([]string{ // newest first
		entry(1_800_000_005_000_000,
			`"level=WARN correlation_id=preflight-20261121T062435Z-abcd1234 node_id=compute-node-01 token=`+kit.Canary+`"`),
		entry(1_800_000_004_000_000, `"-----END PRIVATE KEY-----"`),
		entry(1_800_000_003_000_000, `"short\u0000canary"`),
		entry(1_800_000_002_000_000, `"-----BEGIN PRIVATE KEY-----"`),
		entry(1_800_000_001_000_000, `[104,105,255]`),
		"-- No entries --",
	}, "\n")+"\nEND")
	fact := kit.Run(kit.Patient(t), &Prober{}, diag.Request{Op: diag.OpJournal, Target: "gpuaas-node-agent.service",
		Limit: 50,
		Since: diag.At(time.Unix(1_799_999_000, 0))})
	if !fact.Passed() {
		t.Fatalf("%+v", fact)
	}
	argv, err := os.ReadFile(argvFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--unit=gpuaas-node-agent.service", "--lines=50", "--since=@1799999000", "--no-pager"} {
		if !strings.Contains(string(argv), want) {
			t.Errorf("journalctl was not asked with %s: %s", want, argv)
		}
	}
	var got []string
	for _, l := range fact.Journal.Lines {
		got = append(got, l.Text)
	}
	want := []string{"hi?", diag.Redacted, diag.Redacted, diag.Redacted,
		"level=WARN correlation_id=preflight-20261121T062435Z-abcd1234 node_id=compute-node-01 token=" + diag.Redacted}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	if l := fact.Journal.Lines[4]; l.Boot != "b1" || l.Priority != 6 || l.At.UnixMilli() != 1_800_000_005_000 {
		t.Errorf("%+v", l)
	}
	if c := fact.Journal.Redacted; c["private_key"] != 3 || c["assigned"] != 1 {
		t.Errorf("counted %v", c)
	}
}

// TestJournalSearch: only matching lines are returned, whether or not journalctl supports searching.
func TestJournalSearch(t *testing.T) {
	f := kit.NewFakes(t)
	argvFile := filepath.Join(f.Dir, "argv")
	ask := func() diag.Fact {
		return kit.Run(kit.Patient(t), &Prober{},
			diag.Request{Op: diag.OpJournal, Target: "a.service", Match: []string{"node-01", "c.1"}})
	}
	lines := "cat <<'END'\n" + entry(2, `"about node-01"`) + "\n" + entry(1, `"about c.1"`) + "\n" +
		entry(1, `"about cx1 and node-02"`) + "\nEND"
	f.Script(t, "journalctl", `case "$*" in *--grep*) echo "$@" >`+argvFile+
		`; echo "Compiled without pattern matching support" >&2; exit 1;; esac; `+lines)
	if fact := ask(); !fact.Passed() || len(fact.Journal.Lines) != 2 || fact.Journal.Lines[0].Text != "about c.1" {
		t.Errorf("without a search: %+v", fact)
	}
	if argv, err := os.ReadFile(argvFile); err != nil || !strings.Contains(string(argv), `--grep=node-01|c\.1`) {
		t.Errorf("it was not asked to search: %s %v", argv, err)
	}
	f.Script(t, "journalctl", "echo '-- No entries --'; exit 1")
	if fact := ask(); !fact.Passed() || len(fact.Journal.Lines) != 0 {
		t.Errorf("nothing found: %+v", fact)
	}
}

// TestJournalSays: an obstacle is reported as a failure, and lines read before it are kept.
func TestJournalSays(t *testing.T) {
	f := kit.NewFakes(t)
	patience := 30 * time.Second
	ask := func(target string) diag.Fact {
		ctx, cancel := context.WithTimeout(kit.Patient(t), patience)
		defer cancel()
		return kit.Run(ctx, &Prober{}, diag.Request{Op: diag.OpJournal, Target: target})
	}
	f.Script(t, "journalctl",
		"echo 'Hint: You are currently not seeing messages from other users and the system.' >&2; cat <<'END'\n"+
			entry(1, `"mine"`)+"\nEND")
	if fact := ask("a.service"); fact.Failure != diag.NotPermitted || len(fact.Journal.Lines) != 1 {
		t.Errorf("not permitted: %+v", fact)
	}
	patience = 300 * time.Millisecond
	f.Script(t, "journalctl", "sleep 60")
	if fact := ask("a.service"); fact.Failure != diag.Timeout {
		t.Errorf("a journal that hangs: %+v", fact)
	}
	patience = 30 * time.Second
	for _, target := range []string{"--output=cat", "a*", "../a"} {
		if fact := ask(target); fact.Failure != diag.Unsupported {
			t.Errorf("%q: %+v", target, fact)
		}
	}
}

// TestLogFilesOnly: the operation returns the content of no other files.
func TestLogFilesOnly(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(secret, []byte(kit.Canary), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{secret, "/etc/passwd", "/var/log/../../etc/passwd", "/var/log"} {
		fact := kit.Run(t.Context(), &Prober{}, diag.Request{Op: diag.OpJournal, Target: target})
		if fact.Failure != diag.Unsupported || len(fact.Journal.Lines) > 0 {
			t.Errorf("%s: %+v", target, fact)
		}
	}
}

func TestLogLineTimes(t *testing.T) {
	for line, want := range map[string]string{
		`{"time":"2026-11-21T06:24:35+00:00","status":200}`: "2026-11-21T06:24:35.000Z",
		"time=2026-11-21T07:24:35.5+01:00 level=INFO":       "2026-11-21T06:24:35.500Z",
		"2026-11-21T06:24:35Z started":                      "2026-11-21T06:24:35.000Z",
		"no time at all":                                    "",
	} {
		if b, _ := timeOf(line).MarshalText(); string(b) != want {
			t.Errorf("%s: %s, want %s", line, b, want)
		}
	}
}
