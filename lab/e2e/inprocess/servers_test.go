//go:build linux

package inprocess

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/hosttools"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/profile"
)

// The doors of a platform: the servers in front of it for operators, browsers and nodes.
const (
	apiDoor = iota
	terminalDoor
	ingressDoor
)

// behind is a platform whose doors are one real server. Its agent uses the platform's own ingress, like an agent
// that connected before the server was changed, so that each walk sees only one change.
type behind struct {
	*world
	server server
	doors  [3]door
	node   string // the folder that the probe takes for the agent's
}

// startBehind starts the platform; each cell of the table starts the server.
func startBehind(t *testing.T, s server) *behind {
	t.Helper()
	b := &behind{server: s, node: t.TempDir()}
	var urls [3]string
	for i := range b.doors {
		port := lastingPort(t)
		b.doors[i].port, urls[i] = port, fmt.Sprintf("https://127.0.0.1:%d", port)
	}
	b.world = start(t, options{
		platform: func(o *platformtest.Options) {
			inner := o.Config
			o.Config = func(c *platform.Config) { inner(c); c.Endpoints.BrowserTerminalBase = urls[terminalDoor] }
		},
		nodeEnv: func(_ *world, env map[string]string) { env["GPUAAS_API_URL"] = urls[ingressDoor] },
		profile: func(p *profile.Profile) {
			p.APIBase, p.TerminalBase, p.NodeRuntimeAPIURL, p.Agent.Dir = urls[apiDoor], urls[terminalDoor], urls[ingressDoor],
				b.node
			p.Mapping.Fields = map[string]string{"node.agent_api_url": profile.Absent} // it reports its own
			no := false
			p.Mapping.Record = &no // a record on this machine may belong to another test's agent
		},
	})
	cert, key, both := b.platform.ServerFiles()
	for i, listener := range []string{b.platform.APIListener, b.platform.GatewayListener, b.platform.NodeAPIListener} {
		d := &b.doors[i]
		d.backend, d.cert, d.key, d.both, d.tls = hostPort(listener), cert, key, both, "1.3"
	}
	in := &b.doors[ingressDoor]
	in.clients, in.ca, in.secret = certRequired, b.platform.SigningCAFile, b.platform.IngressSecret().Reveal()
	return b
}

// nodeFiles gives the probe's node the agent's credential and bundle.
func (b *behind) nodeFiles(t *testing.T) {
	t.Helper()
	for _, name := range []string{"cert.pem", "key.pem", "ca-bundle.crt"} {
		text, err := os.ReadFile(filepath.Join(b.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(b.node, name), string(text))
	}
}

// issue gives the probe's node another credential.
func (b *behind) issue(t *testing.T, o platformtest.IssueOptions) {
	t.Helper()
	c := b.platform.Issue(nodeID, o)
	for name, from := range map[string]string{"cert.pem": c.CertFile, "key.pem": c.KeyFile} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(b.node, name), string(text))
	}
}

// revoke returns a revocation list with the node's certificate.
func (b *behind) revoke(t *testing.T) (list string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.node, "cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return b.platform.RevocationFile(cert.SerialNumber)
}

// expectation is the expected verdict of a walk, for every server.
type expectation struct {
	outcome diag.Outcome
	hop     diag.HopID // "": no blame
	signal  diag.Signal
	owner   string
	reason  diag.ReasonCode
	says    string // a regular expression for the blame's text, or for the reason if there is no blame
}

// cell is one row of the table: the change, and the expected verdict of the walk.
type cell struct {
	name   string
	do     func(t *testing.T, b *behind, doors *[3]door)
	cannot map[string]string // servers that cannot do it, with the reason
	want   expectation
	own503 expectation // of servers that answer for a backend that is down as for a page of their own; else want
}

// answers503 names the servers that do.
var answers503 = []string{"haproxy", "apache2"}

// TestServers walks through each server in each cell: one cause has one verdict, whether the server reports it by
// an alert, by HTTP or by closing the connection, and a healthy server blames no hop.
func TestServers(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			if path, _ := hosttools.Find(s.name); s.conf != nil && path == "" {
				begin(t)
				t.Skipf("needs %s: as root on Debian, make test unpacks it", s.name)
			}
			t.Parallel()
			b := startBehind(t, s)
			for _, c := range cells() {
				if c.own503.hop != "" && slices.Contains(answers503, s.name) {
					c.want = c.own503
				}
				if c.cannot[s.name] == "" {
					t.Run(c.name, func(t *testing.T) { b.judge(t, c) })
				}
			}
		})
	}
}

// judge makes a cell's change, walks, and compares the verdict with the table.
func (b *behind) judge(t *testing.T, c cell) {
	begin(t)
	b.nodeFiles(t)
	doors := b.doors
	if c.do != nil {
		c.do(t, b, &doors)
	}
	end := b.server.run(t, doors[:])
	defer end()
	insist(t, func() []string {
		r := b.walk(t)
		return append(c.want.wrong(r), slips(r)...)
	})
}

// insist fails the test for a walk that fails each time, see walksAgain.
func insist(t *testing.T, walk func() []string) {
	t.Helper()
	var wrong []string
	for range walksAgain {
		if wrong = walk(); len(wrong) == 0 {
			return
		}
	}
	t.Error(strings.Join(wrong, "\n"))
}

// wrong returns the differences between a report and the verdict.
func (want expectation) wrong(r *diag.Report) (wrong []string) {
	v := r.Verdict
	got, text := expectation{outcome: v.Outcome, owner: v.Owner, reason: v.Reason, says: want.says}, v.Because
	if b := v.Blame; b != nil {
		got.hop, got.signal, text = b.Hop, b.Signal, b.Text
	}
	if got != want {
		wrong = append(wrong, fmt.Sprintf("got  %+v\nwant %+v", got, want))
	}
	if !regexp.MustCompile(want.says).MatchString(text) {
		wrong = append(wrong, fmt.Sprintf("it says %q, want %q", text, want.says))
	}
	if len(v.OtherFindings) > 0 {
		wrong = append(wrong, "other findings")
	}
	if len(wrong) > 0 {
		wrong = append(wrong, describe(r))
	}
	return wrong
}

// slips are texts that would claim what no server did.
func slips(r *diag.Report) (wrong []string) {
	for _, h := range r.Hops {
		if text := h.Text + h.Because; strings.Contains(text, "HTTP 0") {
			wrong = append(wrong, string(h.ID)+": "+text)
		}
	}
	return wrong
}

func hostPort(base string) string {
	_, rest, _ := strings.Cut(base, "://")
	return rest
}
