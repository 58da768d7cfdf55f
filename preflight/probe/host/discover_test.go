//go:build linux

package host

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

func TestParseEnvFile(t *testing.T) {
	const text = `# a comment \
GPUAAS_API_URL=https://node-api.gpuaas.test
; GPUAAS_NODE_ID=no

  PADDED = two words	 
SINGLE='a $b "c" \d'
DOUBLE="a \"b\" \\ \$c \d"
LONG=one \
two
SPLIT="over
lines"
JOINED='a'"b"
ESCAPED=a\ b\"
EMPTY=
export NO=1
2NO=1
no equals sign
LAST=end`
	want := map[string]string{
		"GPUAAS_API_URL": "https://node-api.gpuaas.test",
		"PADDED":         "two words",
		"SINGLE":         `a $b "c" \d`,
		"DOUBLE":         `a "b" \ $c \d`,
		"LONG":           "one two",
		"SPLIT":          "over\nlines",
		"JOINED":         "ab",
		"ESCAPED":        `a b"`,
		"EMPTY":          "",
		"LAST":           "end",
	}
	if got := parseEnvFile(text); !maps.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func FuzzParseEnvFile(f *testing.F) {
	f.Add("A=b\nC='d'\nE=\"f\\\"g\"\n#x\nH=i\\\nj")
	f.Fuzz(func(t *testing.T, text string) {
		for name, value := range parseEnvFile(text) {
			if !validName(name) || len(value) > len(text) {
				t.Errorf("%q = %q", name, value)
			}
		}
	})
}

// agentProcess starts an "agent" with this environment.
func agentProcess(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	tier.NeedsHost(t)
	cmd := exec.Command("cat")
	cmd.Env = env
	kit.StartAnswering(t, cmd)
	return cmd
}

func TestDiscoverAgent(t *testing.T) {
	fakes := kit.NewFakes(t)
	file := kit.TempFile(t, "GPUAAS_API_URL=https://file\nGPUAAS_ENROLLMENT_TOKEN=hunter2\n")
	later := kit.TempFile(t, "GPUAAS_API_URL=https://later\n")
	cmd := agentProcess(t, "GPUAAS_API_URL=https://process", "GPUAAS_NODE_ID=n", "GPUAAS_ENROLLMENT_TOKEN=hunter2")
	fakes.Unit(t, "agent.service", kit.RunningUnit(cmd.Process.Pid)...)
	a := DiscoverAgent(kit.Patient(t), "agent.service", file)
	if a.PID != cmd.Process.Pid || a.Source != "process" ||
		!maps.Equal(a.Env, map[string]string{"GPUAAS_API_URL": "https://process", "GPUAAS_NODE_ID": "n"}) {
		t.Errorf("running: %+v", a)
	}
	fakes.Unit(t, "agent.service", "MainPID=0")
	if a = DiscoverAgent(kit.Patient(t), "agent.service", file); a.PID != 0 || a.Source != "env_file" ||
		!maps.Equal(a.Env, map[string]string{"GPUAAS_API_URL": "https://file"}) {
		t.Errorf("stopped: %+v", a)
	}
	fakes.Unit(t, "agent.service", "MainPID=0", "EnvironmentFiles="+file+" (ignore_errors=no)",
		"EnvironmentFiles="+later+" (ignore_errors=yes)")
	if a = DiscoverAgent(kit.Patient(t), "agent.service", "/none"); a.Env["GPUAAS_API_URL"] != "https://later" {
		t.Errorf("the unit's own files, in order: %+v", a)
	}
	if a = DiscoverAgent(kit.Patient(t), "other.service", "/none"); a.Source != "" || a.PID != 0 || len(a.Env) != 0 {
		t.Errorf("nothing there: %+v", a)
	}
}

// The process of a crash-looping unit is often found just before it becomes the agent, with systemd's own environment,
// or just after its end. The environment with which it was or will be started is in its file.
func TestEnvironmentOfAProcessThatComesOrGoes(t *testing.T) {
	fakes := kit.NewFakes(t)
	file := kit.TempFile(t, "GPUAAS_API_URL=https://file\n")
	starting := agentProcess(t, "PATH=/usr/bin", "INVOCATION_ID=1")
	ended := agentProcess(t, "GPUAAS_API_URL=https://process")
	_ = ended.Process.Kill()
	_ = ended.Wait()
	for name, pid := range map[string]int{"starting": starting.Process.Pid, "ended": ended.Process.Pid} {
		fakes.Unit(t, "agent.service", kit.RunningUnit(pid)...)
		a := DiscoverAgent(kit.Patient(t), "agent.service", file)
		if a.Source != "env_file" || a.Env["GPUAAS_API_URL"] != "https://file" {
			t.Errorf("%s: %+v", name, a)
		}
		p := &Prober{Agent: AgentView{Unit: "agent.service", EnvFile: file}}
		f := kit.Run(kit.Patient(t), p, diag.Request{Op: diag.OpEnv, Env: []string{"GPUAAS_API_URL"}})
		if f.Env == nil || f.Env.Source != "env_file" || f.Env.Values["GPUAAS_API_URL"] != "https://file" {
			t.Errorf("%s: %+v %+v", name, f, f.Env)
		}
	}
}

// putInPlace replaces a file by one whose modification time is two hours ago.
func putInPlace(t *testing.T, file, text string) {
	t.Helper()
	then := time.Now().Add(-2 * time.Hour)
	next := file + ".new"
	if err := errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Chtimes(next, then, then),
		os.Rename(next, file)); err != nil {
		t.Fatal(err)
	}
}

var seconds = regexp.MustCompile(`2h0m\d+s ago`)

// secretTexts returns a fact's texts about secrets, without the seconds that the test took since putInPlace.
func secretTexts(f diag.Fact) map[string]string {
	texts := map[string]string{}
	for name, text := range f.Env.Secret {
		texts[name] = seconds.ReplaceAllString(text, "2h0m ago")
	}
	return texts
}

func TestEnv(t *testing.T) {
	tier.NeedsHost(t)
	fakes := kit.NewFakes(t)
	file := filepath.Join(t.TempDir(), "agent.env")
	putInPlace(t, file, "GPUAAS_NODE_ID=file\nGPUAAS_ENROLLMENT_TOKEN=hunter2\n")
	time.Sleep(20 * time.Millisecond)
	cmd := agentProcess(t, "GPUAAS_NODE_ID=n", "GPUAAS_ENROLLMENT_TOKEN=hunter2", "GPUAAS_TASK_SIGNING_PUBKEYS=k:v",
		"HTTPS_PROXY=http://user:hunter2@proxy:3128", "DB_PASSWORD=hunter2", "OTHER=x", "API_KEY=")
	ask := diag.Request{Op: diag.OpEnv,
		Env: []string{"GPUAAS_NODE_ID", "GPUAAS_ENROLLMENT_TOKEN", "GPUAAS_TASK_SIGNING_PUBKEYS", "HTTPS_PROXY",
			"DB_PASSWORD", "API_KEY", "UNSET"}}
	p := &Prober{Agent: AgentView{Unit: "agent.service", EnvFile: file}}

	fakes.Unit(t, "agent.service", kit.RunningUnit(cmd.Process.Pid)...)
	f := kit.Run(kit.Patient(t), p, ask)
	kit.WantFailure(t, f, diag.OK)
	if f.Env.Source != "process" ||
		!maps.Equal(f.Env.Values,
			map[string]string{"GPUAAS_NODE_ID": "n", "GPUAAS_TASK_SIGNING_PUBKEYS": "k:v", "HTTPS_PROXY": "http://proxy:3128"}) {
		t.Errorf("values = %v", f.Env.Values)
	}
	if !maps.Equal(secretTexts(f),
		map[string]string{"GPUAAS_ENROLLMENT_TOKEN": "present, written 2h0m ago",
			"DB_PASSWORD": "present, written 2h0m ago", "API_KEY": "empty"}) {
		t.Errorf("secrets = %v", f.Env.Secret)
	}

	// The agent keeps running while its token is rotated: the token comes from the file, and everything else from its
	// start.
	for text, want := range map[string]string{
		"GPUAAS_NODE_ID=file\nGPUAAS_ENROLLMENT_TOKEN=grt1." + untilTheThird +
			".hunter2\nDB_PASSWORD=\n": "present, written 2h0m ago, until 2026-01-03T12:00:00Z",
		"GPUAAS_ENROLLMENT_TOKEN=\n": "empty",
		"GPUAAS_NODE_ID=file\n":      "",
	} {
		time.Sleep(20 * time.Millisecond) // the resolution of a process's start is a hundredth of a second
		putInPlace(t, file, text)
		f = kit.Run(kit.Patient(t), p, ask)
		if f.Env == nil || f.Env.Source != "process" || f.Env.Values["GPUAAS_NODE_ID"] != "n" ||
			secretTexts(f)["GPUAAS_ENROLLMENT_TOKEN"] != want || f.Env.Secret["DB_PASSWORD"] == "empty" {
			t.Errorf("after the rotation to %q: %+v", text, f.Env)
		}
	}
	putInPlace(t, file, "GPUAAS_NODE_ID=file\nGPUAAS_ENROLLMENT_TOKEN=hunter2\n")

	fakes.Unit(t, "agent.service", "MainPID=0")
	f = kit.Run(kit.Patient(t), p, ask)
	if f.Env == nil || f.Env.Source != "env_file" || f.Env.Values["GPUAAS_NODE_ID"] != "file" ||
		secretTexts(f)["GPUAAS_ENROLLMENT_TOKEN"] != "present, written 2h0m ago" {
		t.Errorf("%+v %+v", f, f.Env)
	}

	p.Agent.EnvFile = "/no/such/file"
	kit.WantFailure(t, kit.Run(kit.Patient(t), p, ask), diag.FileMissing)
	p.Agent.EnvFile = ""
	kit.WantFailure(t, kit.Run(kit.Patient(t), p, ask), diag.FileMissing)
}
