//go:build linux

package inprocess

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
	"github.com/gpuaas/gpuaasctl/profile"
	"github.com/gpuaas/gpuaasctl/tools/testkit/porttest"
)

// mistake is an operator's mistake, while node and platform are healthy.
type mistake struct {
	name    string
	profile func(t *testing.T, w *world, p *profile.Profile)
	config  func(t *testing.T, w *world, c *vantage.NodeConfig)
	token   string // instead of the operator's; "-": none
	cookie  string
	node    string // in place of the world's
	host    string // --node-host
	alloc   string
	edge    func(http.ResponseWriter, *http.Request) bool // of the API, in place of the platform
	public  func(http.ResponseWriter, *http.Request) bool // of the terminal, likewise
	env     [2]string
	refused bool // before the walk: exit 2
	owner   string
	passes  bool // the mistake does not matter
	warns   bool // warns and passes
}

// operatorsReasons are the reasons that do not concern the node: operators and tenants use the same gateway.
var operatorsReasons = []diag.ReasonCode{diag.ReasonNone, diag.ReasonTerminalGatewayDown}

// nodesOwners are parts of the names of owners that work on the node.
var nodesOwners = []string{"node runtime", "node agent", "bootstrap", "PKI", "enrollment", "security", "provider VM",
	"sweeper", "user setup", "GPU"}

// TestOperatorsMistakes: an operator's mistake is never blamed on the node, neither in reason nor owner, and the
// text names the next step and who has to take it.
func TestOperatorsMistakes(t *testing.T) {
	t.Parallel()
	tryMistakes(t, func(m mistake) bool { return m.env[0] == "" })
}

// TestOperatorsMistakesInTheEnvironment is TestOperatorsMistakes for rows that set variables, so it runs beside no
// other test.
func TestOperatorsMistakesInTheEnvironment(t *testing.T) {
	tryMistakes(t, func(m mistake) bool { return m.env[0] != "" })
}

func tryMistakes(t *testing.T, these func(mistake) bool) {
	t.Helper()
	w := start(t, options{platform: atHome,
		ssh: sshtest.Config{Accept: func(user string, _ ssh.PublicKey) bool { return user == "root" }}})
	if r := w.walk(t); r.Verdict.Outcome != diag.OutcomePass {
		t.Fatalf("the world is not well\n%s", describe(r))
	}
	for _, m := range mistakes {
		if !these(m) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			begin(t)
			w.platform.APIEdge.Intercept(m.edge)
			w.platform.TerminalEdge.Intercept(m.public)
			if m.env[0] != "" {
				t.Setenv(m.env[0], m.env[1])
			}
			r := w.mistaken(t, m)
			if r == nil {
				if !m.refused {
					t.Error("refused before the walk")
				}
				return
			}
			if m.refused {
				t.Error("it is not refused")
			}
			checkOperators(t, r, m)
		})
	}
}

// atHome makes the platform know the node by an address that its agent reports.
func atHome(o *platformtest.Options) {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			o.Nodes[0].PrivateIP = n.IP.String()
			return
		}
	}
}

func checkOperators(t *testing.T, r *diag.Report, m mistake) {
	t.Helper()
	v := r.Verdict
	if !slices.Contains(operatorsReasons, v.Reason) {
		t.Errorf("reason %s", v.Reason)
	}
	owners := []string{v.Owner}
	for _, o := range v.OtherFindings {
		owners = append(owners, o.Owner)
	}
	for _, owner := range owners {
		if slices.ContainsFunc(nodesOwners, func(of string) bool { return strings.Contains(owner, of) }) {
			t.Errorf("owner %q", owner)
		}
	}
	switch {
	case m.warns:
		if v.Outcome != diag.OutcomeWarn {
			t.Errorf("outcome %s", v.Outcome)
		}
	case m.passes:
		if v.Outcome != diag.OutcomePass {
			t.Errorf("outcome %s", v.Outcome)
		}
	case v.Outcome == diag.OutcomePass || v.Outcome == diag.OutcomeWarn:
		t.Errorf("outcome %s", v.Outcome)
	case v.Owner == "" || len(v.Recovery) == 0:
		t.Errorf("owner %q, %d steps", v.Owner, len(v.Recovery))
	case m.owner != "" && v.Owner != m.owner:
		t.Errorf("owner %q, want %q", v.Owner, m.owner)
	}
	if t.Failed() {
		t.Logf("\n%s\nbecause %s\nnext %q\nclassified by %q", describe(r), v.Because, v.Recovery, r.Classification.Because)
	}
}

// mistaken walks with the mistake; nil if the walk is refused before it begins.
func (w *world) mistaken(t *testing.T, m mistake) *diag.Report {
	t.Helper()
	p := w.load(t)
	no := false
	p.Mapping.Record = &no // a record on this machine may belong to another test's agent
	if m.profile != nil {
		m.profile(t, w, &p)
	}
	id, allocation := nodeID, alloc
	if m.node != "" {
		id = m.node
	}
	if m.alloc != "" {
		allocation = strings.TrimPrefix(m.alloc, "-")
	}
	j := &job{began: time.Now()}
	ca, err := profile.ReadCA(p.Trust.NodeCA)
	if _, errOwn := profile.ReadCA(p.Trust.OperatorCA); err != nil || errOwn != nil {
		return nil
	}
	secret := func(given, file string) diag.Secret {
		switch {
		case given == "-" || file == "":
			return diag.Secret{}
		case given != "":
			return diag.NewSecret(given)
		}
		s, errRead := profile.ReadSecret(t.Context(), file)
		if errRead != nil {
			err = errRead
		}
		return s
	}
	token, cookie := secret(m.token, p.Auth.TokenFile), secret(m.cookie, p.Auth.EdgeCookieFile)
	if err != nil {
		return nil
	}
	p = p.WithDefaults()
	j.env = hop.Env{Profile: p, Subject: hop.NewSubject(p, id, m.host, allocation, ""), Scrub: scrubLine,
		CorrelationID: walk.NewID("walk"), Token: token, Cookie: cookie, NodeCA: ca}
	j.plan = hops.BuiltIn().NewPlan(p, j.env.Subject,
		hop.Options{Session: true, Token: !token.IsZero(), SSH: j.env.Subject.NodeHost != ""})
	j.operator = vantage.Operator(&probe.Prober{Vantage: hop.Operator, Start: j.began})
	cfg := vantage.NodeConfig{ID: id, Host: j.env.Subject.NodeHost, SSH: p.SSH, Agent: p.Agent, Version: sshtest.Version,
		HelperDirs: []string{w.helpers}, Start: j.began, ConfigFile: "none", AgentSocket: "none",
		ConnectTimeout: time.Minute, HelloTimeout: time.Minute} // as in prepare
	if m.config != nil {
		m.config(t, w, &cfg)
	}
	j.node = vantage.NewNode(cfg)
	ctx, cancel := context.WithTimeout(context.Background(), walkLimit)
	defer cancel()
	return j.run(ctx, t)
}

const access = "operator access"

// setSSH returns a mistake in the profile's ssh section.
func setSSH(change func(t *testing.T, s *profile.SSH)) func(*testing.T, *world, *profile.Profile) {
	return func(t *testing.T, _ *world, p *profile.Profile) { change(t, &p.SSH) }
}

func setProfile(change func(t *testing.T, p *profile.Profile)) func(*testing.T, *world, *profile.Profile) {
	return func(t *testing.T, _ *world, p *profile.Profile) { change(t, p) }
}

// locked returns a file with an encrypted key.
func locked(t *testing.T) string {
	_, key := newKey(t)
	block, err := ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte("words"))
	if err != nil {
		t.Fatal(err)
	}
	return file(t, string(pem.EncodeToMemory(block)))
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	write(t, name, text)
	return name
}

// free returns an address without a listener.
func free(t *testing.T) (host string, port int) {
	t.Helper()
	host, text, err := net.SplitHostPort(porttest.TCP(t))
	if err != nil {
		t.Fatal(err)
	}
	if port, err = strconv.Atoi(text); err != nil {
		t.Fatal(err)
	}
	return host, port
}
