// Package platformtest runs a complete reference platform inside a test: the real code on its own ports, behind a
// TLS edge for operators and browsers and a node ingress that behaves like nginx, with a PKI made for the test.
//
// The caller provides Redis: pass the address of a miniredis. Everything is stopped and removed at the end of the
// test.
package platformtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/tools/testkit/porttest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// Longer than 300 lines: one platform with its start, its parts and its end.

// NodeID and AllocationID are the ids that Options' defaults create.
const (
	NodeID       = "compute-node-01"
	AllocationID = "alloc-01"
)

// Options of StartPlatform; the zero value is one node with one active allocation, and no Redis.
type Options struct {
	Redis       string                    // host:port; empty: a port without a listener
	Nodes       []platform.SeedNode       // default: NodeID; their token files are created here
	Allocations []platform.SeedAllocation // default: AllocationID on NodeID, active, os user "tenant"
	Config      func(*platform.Config)    // changes the configuration before the start
	Now         func() time.Time          // default: time.Now
	Log         io.Writer                 // JSON lines; default: nothing
	Door        platform.PeerLimits       // of the node terminal
	// [user:password@]host:port[/path] of a plain server: it gets an edge, which is the product URL of allocations
	// without one
	Workload string
}

// Platform is a running platform. Its URLs are https on loopback; CAPEM verifies their certificates, which also
// name localhost, api.gpuaas.test, term.gpuaas.test and node-api.gpuaas.test.
type Platform struct {
	*platform.Platform

	APIBase         string // the public edge in front of the operator's API
	TerminalBase    string // the public edge in front of the browser's gateway
	NodeAPIURL      string // the node ingress
	NodeAPIListener string // the plain listener behind it
	APIListener     string // the plain listener behind the API's edge
	GatewayListener string // the plain listener behind the terminal's edge
	NodeTerminalURL string // the node terminal, which terminates mutual TLS itself

	CAPEM             string // signs every server certificate
	CAFile            string
	SigningCAFile     string // signs node certificates
	OperatorToken     diag.Secret
	OperatorTokenFile string
	TaskPubkeys       string // GPUAAS_TASK_SIGNING_PUBKEYS

	APIEdge      *Front
	TerminalEdge *Front
	Ingress      *Front
	AppEdge      *Front // in front of Options.Workload; nil without one

	tb     testing.TB
	dir    string
	ca     authority // servers
	nodeCA authority
	client *http.Client
	tokens map[string]diag.Secret
	halts  map[string]*haltable // by the listener's name
	db     *sql.DB
	store  *store.Store
	stop   func() error
}

// StartPlatform starts a platform; it is stopped at the end of the test.
func StartPlatform(tb testing.TB, o Options) *Platform {
	tb.Helper()
	tier.NeedsHost(tb)
	p := &Platform{tb: tb, dir: tb.TempDir(), ca: newAuthority(tb, "gpuaas test servers"),
		nodeCA: newAuthority(tb, "gpuaas test nodes"), tokens: map[string]diag.Secret{},
		halts: map[string]*haltable{}}
	p.CAPEM, p.CAFile = string(p.ca.pem), p.write("server-ca.pem", p.ca.pem)
	p.SigningCAFile = p.write("signing-ca.pem", p.nodeCA.pem)
	p.OperatorToken = randomToken()
	p.OperatorTokenFile = p.write("operator.token", []byte(p.OperatorToken.Reveal()+"\n"))
	p.client = p.newClient(nil)

	listeners := map[string]net.Listener{}
	for _, name := range []string{AtAPI, AtNodeAPI, AtGateway, AtNodeTerminal} {
		listeners[name] = p.haltable(name, listen(tb))
	}
	p.APIEdge = p.newFront(AtAPIEdge, listeners["api"].Addr().String(), nil)
	p.TerminalEdge = p.newFront(AtTerminalEdge, listeners["gateway"].Addr().String(), nil)
	p.Ingress = p.newFront(AtIngress, listeners["node_api"].Addr().String(), p.nodeCA.pem)
	p.Ingress.secret = randomToken()
	for name, url := range map[string]*string{"api": &p.APIListener, "gateway": &p.GatewayListener,
		"node_api": &p.NodeAPIListener} {
		*url = "http://" + listeners[name].Addr().String()
	}
	p.APIBase, p.TerminalBase, p.NodeAPIURL = p.APIEdge.URL, p.TerminalEdge.URL, p.Ingress.URL
	p.NodeTerminalURL = "https://" + listeners["node_terminal"].Addr().String()

	if o.Workload != "" {
		backend, _, _ := strings.Cut(o.Workload, "/")
		p.AppEdge = p.newFront(AtAppEdge, backend[strings.Index(backend, "@")+1:], nil)
	}
	cfg := p.config(o)
	log := slog.New(slog.DiscardHandler)
	if o.Log != nil {
		log = slog.New(slog.NewJSONHandler(o.Log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	p.openStore(cfg.Database)
	inner, err := platform.New(cfg, platform.Deps{Log: log, Now: o.Now, Door: o.Door, Store: p.store,
		Listen: func(name, _ string) (net.Listener, error) { return listeners[name], nil }})
	if err != nil {
		tb.Fatalf("start platform: %v", err)
	}
	p.Platform = inner
	if p.TaskPubkeys, err = platform.TaskPubkeys(cfg.TaskSigningKey); err != nil {
		tb.Fatalf("task public keys: %v", err)
	}
	p.run()
	return p
}

// StaleAfter is the silence after which a node is out of contact. It is long, so that a busy machine does not
// reach it; tests that need it move the clock.
const StaleAfter = time.Minute

// stopTime is how long a platform may take to stop on a busy machine.
const stopTime = time.Minute

// run serves until Stop or the end of the test.
func (p *Platform) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	p.FirstRound()
	p.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(stopTime):
			return fmt.Errorf("the platform did not stop within %s", stopTime)
		}
	})
	p.tb.Cleanup(func() {
		if err := p.stop(); err != nil {
			p.tb.Errorf("stop platform: %v", err)
		}
		p.client.CloseIdleConnections()
	})
}

// Stop stops the platform before the end of the test, as SIGTERM does; edge and ingress stay and respond with 502.
// Its own ports refuse connections.
func (p *Platform) Stop() error {
	err := p.stop()
	for _, url := range []string{p.APIListener, p.GatewayListener, p.NodeAPIListener, p.NodeTerminalURL} {
		porttest.Keep(p.tb, url[strings.LastIndex(url, "/")+1:])
	}
	return err
}

// config writes the configuration's files.
func (p *Platform) config(o Options) platform.Config {
	cert, key := p.ca.issue(p.tb, serverTemplate("gpuaas test terminal"))
	cfg := platform.Config{
		// Deps.Listen opens the real ones
		Listen: platform.Listen{API: "127.0.0.1:1", NodeAPI: "127.0.0.1:1", Gateway: "127.0.0.1:1",
			NodeTerminal: "127.0.0.1:1"},
		Redis: o.Redis, Database: store.Memory,
		PKI: platform.PKIFiles{
			SigningCACert: p.SigningCAFile, SigningCAKey: p.write("signing-ca.key", p.nodeCA.keyPEM),
			IngressCA: p.write("ingress-ca.pem", p.nodeCA.pem), NodeAPIServerCert: p.write("node-api.pem", p.Ingress.certPEM),
			TerminalCert: p.write("terminal.pem", cert), TerminalKey: p.write("terminal.key", key), NodeCABundle: p.CAFile,
		},
		TaskSigningKey: p.write("task.key", newTaskKey(p.tb)), OperatorTokenFile: p.OperatorTokenFile,
		IngressSecretFile: p.write("ingress.secret", []byte(p.Ingress.secret.Reveal())),
		Endpoints: platform.Endpoints{APIURL: p.NodeAPIURL, TerminalURL: p.NodeTerminalURL,
			BrowserTerminalBase: p.TerminalBase},
		Policy: platform.Policy{HeartbeatStaleAfter: int64(StaleAfter / time.Second), TaskWait: 5,
			TaskStaleSweepInterval: 1, RecoveryTokenMaxAge: 3600,
			CertTTL: 3600, SessionLimit: 3600, SessionIdle: 3600, CredentialOverlap: 300,
			NodeStreamTimeout: 30, TerminalTokenTTL: 60, TaskLease: 30, AuditDedupeWindow: 300},
		Seed: p.seed(o),
	}
	if cfg.Redis == "" {
		cfg.Redis = porttest.TCP(p.tb)
	}
	if o.Config != nil {
		o.Config(&cfg)
	}
	return cfg
}

// seed writes the seed file, with a fresh enrollment token for each node.
func (p *Platform) seed(o Options) string {
	nodes, allocations := o.Nodes, o.Allocations
	if nodes == nil {
		nodes = []platform.SeedNode{{ID: NodeID, Hostname: NodeID, PrivateIP: "127.0.0.1", ProviderClass: "lab"}}
	}
	if allocations == nil && o.Nodes == nil {
		allocations = []platform.SeedAllocation{
			{ID: AllocationID, NodeID: NodeID, State: store.StateActive, OSUser: "tenant", WorkflowID: "wf-01"},
		}
	}
	s := platform.Seed{Nodes: append([]platform.SeedNode(nil), nodes...),
		Allocations: append([]platform.SeedAllocation(nil), allocations...)}
	backend, path, _ := strings.Cut(o.Workload, "/")
	login := backend[:strings.Index(backend, "@")+1]
	for i := range s.Allocations {
		if app := &s.Allocations[i].App; p.AppEdge != nil && app.ProductURL == "" {
			app.ProductURL = strings.Replace(p.AppEdge.URL, "://", "://"+login, 1) + "/" + path
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		p.tokens[n.ID] = randomToken()
		n.EnrollmentTokenFile = p.write("token-"+n.ID, []byte(p.tokens[n.ID].Reveal()))
	}
	b, err := yaml.Marshal(s)
	if err != nil {
		p.tb.Fatal(err)
	}
	return p.write("seed.yaml", b)
}

// EnrollmentToken returns the token with which the node can enroll once.
func (p *Platform) EnrollmentToken(nodeID string) diag.Secret { return p.tokens[nodeID] }

// WriteIngressCA replaces the platform's copy of the ingress's client CAs; Ingress.Trust is the other half of a
// drift.
func (p *Platform) WriteIngressCA(caPEM []byte) { p.write("ingress-ca.pem", caPEM) }

// SigningCA returns the CA that signs node certificates, in PEM; the ingress trusts it initially.
func (p *Platform) SigningCA() []byte { return p.nodeCA.pem }

// Client returns an HTTP client that trusts the platform's servers.
func (p *Platform) Client() *http.Client { return p.client }

// Do calls the operator's API with the token: in (nil: no body) is sent as JSON, the response is decoded into out
// (nil: ignored). It returns the status and the response's header; the test fails if there is no response.
func (p *Platform) Do(method, path string, in, out any, header ...string) (int, http.Header) {
	p.tb.Helper()
	return p.call(p.client, method, p.APIBase+path,
		append([]string{"Authorization", "Bearer " + p.OperatorToken.Reveal()}, header...), in, out)
}

// DoNode calls the node API through the ingress with a node's credential; otherwise it is like Do.
func (p *Platform) DoNode(c Credential, method, path string, in, out any, header ...string) (int, http.Header) {
	p.tb.Helper()
	client := p.newClient(&c)
	defer client.CloseIdleConnections()
	return p.call(client, method, p.NodeAPIURL+path, header, in, out)
}

// callTime bounds one call of a helper; it is longer than any long poll in the tests.
const callTime = 30 * time.Second

func (p *Platform) call(client *http.Client, method, url string, header []string, in, out any) (int, http.Header) {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			p.tb.Fatal(err)
		}
		body = strings.NewReader(string(b))
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		p.tb.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		p.tb.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.tb.Fatalf("%s %s: %v", method, url, err)
	}
	if out != nil && len(b) > 0 {
		if err := json.Unmarshal(b, out); err != nil {
			p.tb.Fatalf("%s %s: %v in %q", method, url, err, b)
		}
	}
	return resp.StatusCode, resp.Header
}

func (p *Platform) write(name string, b []byte) string {
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		p.tb.Fatal(err)
	}
	return path
}

func randomToken() diag.Secret {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return diag.NewSecret(base64.RawURLEncoding.EncodeToString(b[:]))
}

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	tier.NeedsHost(tb)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = ln.Close() }) // its user closes it, unless the start failed
	return ln
}
