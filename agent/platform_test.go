package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

const testNode = "node-1"

// authority is a CA of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return authority{cert, key}
}

func (a authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// issue signs a certificate for key; server certificates name 127.0.0.1 and the given names.
func (a authority) issue(t testing.TB, subject string, pub any, notAfter time.Time, names ...string) []byte {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	must(t, err)
	notBefore := time.Now().Add(-time.Hour)
	if time.Until(notAfter) > 365*24*time.Hour { // for tests in virtual time, which begins in the year 2000
		notBefore = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	tmpl := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: subject}, NotBefore: notBefore,
		NotAfter: notAfter, DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, pub, a.key)
	must(t, err)
	return der
}

func (a authority) server(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{
		a.issue(t, "server", &key.PublicKey, time.Now().Add(time.Hour), "api.test"),
	}, PrivateKey: key}
}

// fakePlatform is a node API and a terminal gateway on one TLS listener; a test can replace its responses.
type fakePlatform struct {
	t       testing.TB
	ca      authority // of the server and of the nodes
	signing ed25519.PrivateKey
	server  *httptest.Server
	token   string

	mu       sync.Mutex // guards what follows
	answer   map[string]http.HandlerFunc
	beats    []wire.HeartbeatRequest
	serials  []string // client certificates of heartbeats
	waits    int
	waiting  int
	overlap  bool
	results  map[string][]wire.TaskResult
	enrolled int
	missing  []string // requests without a correlation id

	tasks    chan wire.Task
	given    map[string]int // by task id: the wait that delivered it
	terminal func(ctx context.Context, c *websocket.Conn, session string)
	posted   chan string
	beaten   chan struct{}
}

func newFakePlatform(t testing.TB) *fakePlatform {
	tier.NeedsHost(t)
	p := &fakePlatform{t: t, ca: newAuthority(t, "test CA"), token: "enroll-me-canary", tasks: make(chan wire.Task, 64),
		given: map[string]int{}, answer: map[string]http.HandlerFunc{}, results: map[string][]wire.TaskResult{},
		posted: make(chan string, 256), beaten: make(chan struct{}, 4096)}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	p.signing = key
	p.server = httptest.NewUnstartedServer(p.handler())
	p.server.TLS = p.tls()
	p.server.Config.ErrorLog = nil
	p.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	p.server.StartTLS()
	t.Cleanup(p.server.Close)
	return p
}

func (p *fakePlatform) tls() *tls.Config {
	clients := x509.NewCertPool()
	clients.AddCert(p.ca.cert)
	return &tls.Config{Certificates: []tls.Certificate{p.ca.server(p.t)}, ClientAuth: tls.VerifyClientCertIfGiven,
		ClientCAs: clients}
}

func (p *fakePlatform) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, cert bool, h http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			p.mu.Lock()
			other := p.answer[pattern]
			if r.Header.Get(wire.HeaderCorrelationID) == "" {
				p.missing = append(p.missing, r.URL.Path)
			}
			p.mu.Unlock()
			switch {
			case other != nil:
				other(w, r)
			case cert && len(r.TLS.PeerCertificates) == 0:
				w.WriteHeader(400)
				fmt.Fprint(w, "<html><head><title>400 No required SSL certificate was sent</title></head></html>")
			default:
				h(w, r)
			}
		})
	}
	handle("POST "+wire.PathEnroll, false, p.enroll)
	handle("POST "+wire.PathHeartbeat, true, p.heartbeat)
	handle("GET "+wire.PathTaskWait, true, p.wait)
	handle("POST "+wire.PathTaskResult, true, p.result)
	handle("GET "+wire.PathNodeTerminal, true, p.stream)
	handle("POST "+wire.PathEvents, true, http.NotFound)
	return mux
}

// instead handles pattern with h until the returned function is called.
func (p *fakePlatform) instead(pattern string, h http.HandlerFunc) (restore func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer[pattern] = h
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.answer, pattern)
	}
}

func (p *fakePlatform) enroll(w http.ResponseWriter, r *http.Request) {
	var in wire.EnrollRequest
	must(p.t, json.NewDecoder(r.Body).Decode(&in))
	if r.Header.Get("Authorization") != "Bearer "+p.token || in.NodeID != testNode {
		deny(w, 403, wire.DenyTokenConsumed)
		return
	}
	block, _ := pem.Decode([]byte(in.CSR))
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	must(p.t, err)
	must(p.t, csr.CheckSignature())
	der := p.ca.issue(p.t, in.NodeID, csr.PublicKey, time.Now().Add(time.Hour))
	p.mu.Lock()
	p.enrolled++
	p.mu.Unlock()
	must(p.t, json.NewEncoder(w).Encode(wire.EnrollResponse{CABundle: p.ca.pem(), Generation: 3,
		Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}))
}

func (p *fakePlatform) heartbeat(w http.ResponseWriter, r *http.Request) {
	var in wire.HeartbeatRequest
	must(p.t, json.NewDecoder(r.Body).Decode(&in))
	p.mu.Lock()
	p.beats = append(p.beats, in)
	p.serials = append(p.serials, r.TLS.PeerCertificates[0].SerialNumber.Text(16))
	p.mu.Unlock()
	p.beaten <- struct{}{}
	must(p.t, json.NewEncoder(w).Encode(wire.HeartbeatResponse{Time: time.Now()}))
}

func (p *fakePlatform) wait(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.waits++
	p.waiting++
	p.overlap = p.overlap || p.waiting > 1
	p.mu.Unlock()
	defer func() { p.mu.Lock(); p.waiting--; p.mu.Unlock() }()
	select {
	case task := <-p.tasks:
		p.mu.Lock()
		p.given[task.ID] = p.waits
		p.mu.Unlock()
		must(p.t, json.NewEncoder(w).Encode(task))
	case <-r.Context().Done():
	case <-time.After(200 * time.Millisecond):
		w.WriteHeader(http.StatusNoContent)
	}
}

func (p *fakePlatform) result(w http.ResponseWriter, r *http.Request) {
	var in wire.TaskResult
	must(p.t, json.NewDecoder(r.Body).Decode(&in))
	id := r.PathValue("task_id")
	p.mu.Lock()
	p.results[id] = append(p.results[id], in)
	p.mu.Unlock()
	p.posted <- id
}

func (p *fakePlatform) stream(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.TerminalSubprotocol}})
	if err != nil {
		p.t.Error(err)
		return
	}
	defer c.CloseNow()
	p.terminal(r.Context(), c, r.PathValue("session_id"))
}

func deny(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(wire.ErrorBody{Error: wire.ErrorInfo{Code: code, Message: "denied: " + code}})
}

// task queues a signed task.
func (p *fakePlatform) task(id, kind string, payload any) wire.Task {
	b, err := json.Marshal(payload)
	must(p.t, err)
	task := wire.Task{ID: id, NodeID: testNode, Type: kind, Payload: b, CorrelationID: "corr-" + id,
		QueuedAt: time.Now(), ExpiresAt: time.Now().Add(time.Minute)}
	task.Sign("k1", p.signing)
	p.tasks <- task
	return task
}

// taken waits until the agent has taken a task, which is when it polls for the next one.
func (p *fakePlatform) taken(id string) {
	p.t.Helper()
	wait.For(p.t, "task "+id+" is taken", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		at, given := p.given[id]
		return given && p.waits > at
	})
}

// resultOf waits for the result of a task.
func (p *fakePlatform) resultOf(id string) wire.TaskResult {
	p.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		p.mu.Lock()
		got := p.results[id]
		p.mu.Unlock()
		if len(got) > 0 {
			return got[0]
		}
		select {
		case <-p.posted:
		case <-deadline:
			p.t.Fatalf("no result of task %s", id)
		}
	}
}

// config returns an agent's configuration for this platform, with a credentials folder that contains only the
// trust bundle.
func (p *fakePlatform) config(log *slog.Logger) Config {
	p.t.Helper()
	u, err := url.Parse(p.server.URL)
	must(p.t, err)
	dir := p.t.TempDir()
	must(p.t, os.WriteFile(filepath.Join(dir, fileBundle), []byte(p.ca.pem()), 0o644))
	return Config{NodeID: testNode, APIURL: u, TerminalURL: u, Token: diag.NewSecret(p.token), Dir: dir, Log: log,
		Version: "test", Verifiers: wire.Verifiers{"k1": p.signing.Public().(ed25519.PublicKey)},
		HeartbeatInterval: 300 * time.Millisecond, TaskWait: 2 * time.Second}
}

// start runs an agent until the test ends or stop is called, which returns how long that took.
func start(t testing.TB, cfg Config) (stop func() time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cfg) }()
	var once sync.Once
	var took time.Duration
	stop = func() time.Duration {
		once.Do(func() {
			began := time.Now()
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			took = time.Since(began)
		})
		return took
	}
	t.Cleanup(func() { stop() })
	return stop
}

// decisions is a Recorder that keeps all decisions.
type decisions struct {
	mu   sync.Mutex
	list []Decision
	news chan struct{}
}

func newDecisions() *decisions { return &decisions{news: make(chan struct{}, 1)} }

func (d *decisions) Record(v Decision) error {
	d.mu.Lock()
	d.list = append(d.list, v)
	d.mu.Unlock()
	select {
	case d.news <- struct{}{}:
	default:
	}
	return nil
}

// await waits for a decision that fits.
func (d *decisions) await(t testing.TB, fits func(Decision) bool) Decision {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		d.mu.Lock()
		for _, v := range d.list {
			if fits(v) {
				d.mu.Unlock()
				return v
			}
		}
		d.mu.Unlock()
		select {
		case <-d.news:
		case <-deadline:
			d.mu.Lock()
			list := slices.Clone(d.list)
			d.mu.Unlock() // before the end of the test stops the agent, which records that
			t.Fatalf("no such decision among %+v", list)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
