package chaos

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

func mustPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// TestSurveyOfThisMachine runs the real script with the real shell, on files that this test creates.
func TestSurveyOfThisMachine(t *testing.T) {
	tier.NeedsHost(t)
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("skipped: no sh")
	}
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	text := write("a file", "GPUAASCTL-SENTINEL at 0 /bin/lie\ntwo\n", 0o640)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(text, link); err != nil {
		t.Fatal(err)
	}
	for run, status := range map[string]string{
		"r1": `{"phase":"over","state":"reverted","steps":[]}`, "r2": `{"phase":"over","state":"conflict","steps":[]}`,
		"r3": `{"phase":"armed","state":"done","ttl_left_ms":1,"lease_left_ms":1,"steps":[]}`,
		"r4": `{"phase":"armed","state":"done","ttl_left_ms":9,"lease_left_ms":0,"steps":[]}`,
		"r5": `{"phase":"reverting","state":"error","watchdog":7,"steps":[]}`,
		"r6": `{"phase":"arming","state":"planned","steps":[]}`,
	} {
		write("drills/"+run+"/journal", "x", 0o600)
		write("drills/"+run+"/gpuaas-fault", "#!/bin/sh\ntest \"$*\" = 'status --run "+run+"' && echo '{\"status\":"+status+
			"}'\n", 0o700)
	}
	write("drills/r7/journal", "x", 0o600) // died while arming, before its program was there
	consent := write("chaos.allow", "node = n1\nuntil = 2030-01-01T00:00:00Z\ndisposable = yes\n", 0o644)
	args := SurveyArgs(Questions{
		Tools: []string{"sh", "no-such-tool"}, Names: []string{"127.0.0.1", "nowhere.invalid"},
		Files: []string{link, dir + "/nothing", dir}, Texts: []string{text}, Users: []string{"root", "nobody-at-all"},
		Units: []string{"no-such.service"},
	})
	args[0], args[1] = filepath.Join(dir, "drills"), consent
	cmd := exec.Command(sh, append([]string{"-c", SurveyScript, "sh"}, args...)...)
	cmd.Env = append(os.Environ(), "SSH_CONNECTION=192.0.2.7 50022 192.0.2.1 22")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for line := range strings.Lines(string(out)) {
		if rest, ours := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "GPUAASCTL-SENTINEL "); ours {
			said = append(said, rest)
		}
	}
	m := Machine{ID: "n1"}
	if err := m.ParseSurvey(args, said); err != nil {
		t.Fatal(err)
	}
	if m.Tools["sh"] == "" || m.Tools["no-such-tool"] != "" {
		t.Errorf("tools %v", m.Tools)
	}
	if m.Now.IsZero() || m.SSH != mustPort("192.0.2.7:50022") || m.Locked != "r2 r3 r5" {
		t.Errorf("now %v, ssh %v, locked %q", m.Now, m.SSH, m.Locked)
	}
	if f := m.Files[link]; f.Kind != "file" || !strings.HasSuffix(f.Path, "/a file") || f.Mode != 0o640 ||
		len(f.SHA256) != 64 || f.Text != "" {
		t.Errorf("link %+v", f)
	}
	if f := m.Files[text]; !strings.HasSuffix(f.Text, "\ntwo\n") {
		t.Errorf("text %+v", f)
	}
	if m.Files[dir].Kind != "dir" || m.Files[dir+"/nothing"].Kind != "" {
		t.Errorf("files %+v", m.Files)
	}
	if m.Users["root"].UID != 0 || m.Users["root"].Shell == "" || m.Users["nobody-at-all"].UID != -1 {
		t.Errorf("users %+v", m.Users)
	}
	if len(m.Names["127.0.0.1"]) != 1 || len(m.Names["nowhere.invalid"]) != 0 || m.Units["no-such.service"].Loaded {
		t.Errorf("names %v, units %v", m.Names, m.Units)
	}
	if os.Getuid() == 0 && (m.Consent.Node != "n1" || !m.Consent.Disposable || m.Consent.Problem != "") {
		t.Errorf("consent %+v", m.Consent)
	}
	if err := m.ParseSurvey(args, said[:len(said)-1]); err == nil {
		t.Error("a survey that was cut short is believed")
	}
	if err := m.ParseSurvey(args, []string{"at 99 x", "done"}); err == nil {
		t.Error("an answer that nobody asked for is believed")
	}
}

func TestConsentIsBelievedOnlyFromRoot(t *testing.T) {
	const text = "bm9kZSA9IG4xCnVudGlsID0gMjAzMC0wMS0wMVQwMDowMDowMFoK" // node = n1, until = 2030
	for said, good := range map[string]bool{
		"0:644:regular_file": true, "0:600:regular_file": true, "0:666:regular_file": false, "0:664:regular_file": false,
		"1000:644:regular_file": false, "0:777:symbolic_link": false, "0:755:directory": false,
	} {
		if c := consent([]string{said, text}); (c.Problem == "") != good || !c.Present {
			t.Errorf("%s: %+v", said, c)
		}
	}
	if c := consent([]string{"0:644:regular_file", "bm9kZSA9IG4xCndob2tub3dzID0geAo="}); c.Problem == "" {
		t.Error("a line that nobody understands is passed over")
	}
}
