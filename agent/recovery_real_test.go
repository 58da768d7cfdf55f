package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/credstore"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/logtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// mint makes the platform accept a token that carries its purpose.
func (p *fakePlatform) mint(t testing.TB, change func(*wire.TokenClaims)) diag.Secret {
	t.Helper()
	c := wire.TokenClaims{NodeID: testNode, Profile: "lab", IssuedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}
	if change != nil {
		change(&c)
	}
	token, err := wire.Token(c, "recovery-canary")
	must(t, err)
	p.mu.Lock()
	p.token = token
	p.mu.Unlock()
	return diag.NewSecret(token)
}

func (p *fakePlatform) served(t testing.TB, serial func(string) bool) {
	t.Helper()
	for deadline := time.After(30 * time.Second); ; {
		p.mu.Lock()
		n := len(p.serials)
		ok := n > 0 && serial(p.serials[n-1])
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-p.beaten:
		case <-deadline:
			t.Fatal("no such heartbeat")
		}
	}
}

func (p *fakePlatform) enrollments() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.enrolled
}

func recoveryConfig(t testing.TB, p *fakePlatform) (Config, *decisions) {
	t.Helper()
	cfg, rec := p.config(nil), newDecisions()
	cfg.Recorder, cfg.Profile = rec, "lab"
	return cfg, rec
}

func TestExpiredCertificateRecovers(t *testing.T) {
	p := newFakePlatform(t)
	cfg, rec := recoveryConfig(t, p)
	cfg.Token = p.mint(t, nil)
	old := p.credentials(t, cfg.Dir, p.ca, time.Now().Add(-time.Minute))
	cfg.MetricsFile = filepath.Join(t.TempDir(), "agent.prom")
	start(t, cfg)
	d := rec.await(t, func(d Decision) bool { return d.What == "enroll" })
	if d.Reason != diag.RecCertExpired {
		t.Errorf("decision %+v", d)
	}
	p.served(t, func(s string) bool { return s != old })
	if n := p.enrollments(); n != 1 {
		t.Errorf("%d enrollments", n)
	}
	p.mu.Lock()
	b := p.beats[len(p.beats)-1]
	p.mu.Unlock()
	if b.Counters["enrollment_attempts"] != 1 || b.Counters["enrollment_successes"] != 1 ||
		b.Posture != wire.PostureServing || b.Profile != "lab" || b.CertIssuer == "" {
		t.Errorf("heartbeat %+v", b)
	}
	if names := credentialsIn(cfg.Dir).Names(); len(names) != 2 {
		t.Errorf("generations %v", names)
	}
	if text, err := os.ReadFile(cfg.MetricsFile); err != nil ||
		!strings.Contains(string(text), "\ngpuaas_agent_enrollment_attempts_total 1\n") {
		t.Errorf("metrics: %v\n%s", err, text)
	}
}

// TestRotatedTokenCountsWithoutARestart: the node waits without a token, and continues as soon as one is in its
// file.
func TestRotatedTokenCountsWithoutARestart(t *testing.T) {
	p := newFakePlatform(t)
	cfg, rec := recoveryConfig(t, p)
	cfg.Token = diag.Secret{}
	old := p.credentials(t, cfg.Dir, p.ca, time.Now().Add(-time.Minute))
	start(t, cfg)
	rec.await(t, func(d Decision) bool { return d.Reason == diag.RecRecoveryTokenMissing })
	must(t, setEnv(filepath.Join(cfg.Dir, "agent.env"), map[string]string{KeyToken: p.mint(t, nil).Reveal()}))
	p.served(t, func(s string) bool { return s != old })
}

func TestLostKey(t *testing.T) {
	for name, token := range map[string]bool{"with a token": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			p := newFakePlatform(t)
			cfg, rec := recoveryConfig(t, p)
			if cfg.Token = p.mint(t, nil); !token {
				cfg.Token = diag.Secret{}
			}
			p.credentials(t, cfg.Dir, p.ca, time.Now().Add(time.Hour))
			must(t, os.Remove(filepath.Join(cfg.Dir, fileKey)))
			start(t, cfg)
			if token {
				p.served(t, func(string) bool { return true })
				return
			}
			d := rec.await(t, func(d Decision) bool { return d.What == "retry" })
			if d.Reason != diag.RecRecoveryTokenMissing || !strings.Contains(d.Detail, string(diag.RecCertMissing)) ||
				p.enrollments() != 0 {
				t.Errorf("decision %+v, %d enrollments", d, p.enrollments())
			}
		})
	}
}

// TestStaleBundle: the runtime's trust bundle is stale, so polls and enrollment both fail; the recovery trust path
// works.
func TestStaleBundle(t *testing.T) {
	for name, apart := range map[string]bool{"with a recovery trust path": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			p := newFakePlatform(t)
			cfg, rec := recoveryConfig(t, p)
			cfg.Token = p.mint(t, nil)
			old := p.credentials(t, cfg.Dir, p.ca, time.Now().Add(time.Hour))
			if apart {
				cfg.RecoveryCA = filepath.Join(t.TempDir(), "recovery.crt")
				must(t, os.WriteFile(cfg.RecoveryCA, []byte(p.ca.pem()), 0o644))
			}
			must(t, os.WriteFile(filepath.Join(cfg.Dir, fileBundle), []byte(newAuthority(t, "old CA").pem()), 0o644))
			start(t, cfg)
			if apart {
				p.served(t, func(s string) bool { return s != old })
				return
			}
			d := rec.await(t, func(d Decision) bool { return d.Reason == diag.RecRecoveryEnrollmentBlocked })
			if !strings.Contains(d.Detail, "recovery trust path") || p.enrollments() != 0 {
				t.Errorf("decision %+v, %d enrollments", d, p.enrollments())
			}
		})
	}
}

// TestRejectedFreshCertificate: the ingress accepts no certificate of this CA. The agent enrolls once, and then no
// more, even in the next process.
func TestRejectedFreshCertificate(t *testing.T) {
	tier.NeedsHost(t)
	p := newFakePlatform(t)
	cfg, rec := recoveryConfig(t, p)
	cfg.Token = p.mint(t, nil)
	p.credentials(t, cfg.Dir, p.ca, time.Now().Add(time.Hour))
	nginx := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(400)
		_, _ = w.Write([]byte("<center>The SSL certificate error</center>"))
	}
	p.instead(onHeartbeat, nginx)
	p.instead(onWait, nginx)
	stop := start(t, cfg)
	rec.await(t, func(d Decision) bool { return d.Reason == diag.RecRecoverySuppressed && d.What == "suppress" })
	time.Sleep(time.Second)
	stop()
	cfg.Recorder = newDecisions()
	start(t, cfg)
	cfg.Recorder.(*decisions).await(t, func(d Decision) bool { return d.Reason == diag.RecRecoverySuppressed })
	if n := p.enrollments(); n != 1 {
		t.Errorf("%d enrollments", n)
	}
}

// TestCrashLoopKeepsItsBudget restarts an agent repeatedly whose token the platform does not know.
func TestCrashLoopKeepsItsBudget(t *testing.T) {
	p := newFakePlatform(t)
	cfg, _ := recoveryConfig(t, p)
	cfg.Token = p.mint(t, nil)
	asked := 0
	p.instead(onEnroll, func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		asked++
		p.mu.Unlock()
		deny(w, 401, "unauthorized")
	})
	for range 6 {
		rec := newDecisions()
		cfg.Recorder = rec
		stop := start(t, cfg)
		rec.await(t, func(d Decision) bool { return d.About == "identity" && d.What == "retry" })
		stop()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if asked != perHour {
		t.Errorf("asked %d times", asked)
	}
}

// TestNoAttemptThatCannotBeWrittenDown: if the ledger can be saved neither on disk nor in memory, no request is
// sent.
func TestNoAttemptThatCannotBeWrittenDown(t *testing.T) {
	p := newFakePlatform(t)
	cfg, rec := recoveryConfig(t, p)
	cfg.Token = p.mint(t, nil)
	cfg.StateDir = filepath.Join(cfg.Dir, fileBundle, "state") // below a file
	start(t, cfg)
	d := rec.await(t, func(d Decision) bool { return d.About == "identity" && d.What == "retry" })
	if !strings.Contains(d.Detail, "not tried") || p.enrollments() != 0 {
		t.Errorf("decision %+v, %d enrollments", d, p.enrollments())
	}
}

// scarce is a disk that is full until the reserve is released.
type scarce struct {
	mu       sync.Mutex
	released int
	room     bool
}

func (s *scarce) ReleaseReserve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released, s.room = s.released+1, true
	return nil
}

func (s *scarce) RefillReserve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = false
	return nil
}

func (s *scarce) before(string, string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.room {
		return nil
	}
	return syscall.ENOSPC
}

func TestFullDiskDuringRenewal(t *testing.T) {
	p := newFakePlatform(t)
	cfg := p.config(nil).withDefaults()
	reserve := &scarce{}
	cfg.Reserve, cfg.Token = reserve, p.mint(t, nil)
	creds := credentialsIn(cfg.Dir)
	creds.FS.Before = reserve.before
	e := enrollment{cfg: cfg, creds: creds, token: cfg.Token}
	o, room := e.run(t.Context())
	if !o.OK() || !room || reserve.released == 0 || creds.check().Reason != "" {
		t.Errorf("%+v, room %v, released %d, %+v", o, room, reserve.released, creds.check())
	}
	cfg.Reserve = nil
	e.cfg = cfg
	if o, _ := e.run(t.Context()); o.Reason != diag.RecDiskFull || creds.check().Reason != "" {
		t.Errorf("without a reserve: %+v", o)
	}
}

// TestLostAnswerAsksWithTheSameKey: the platform issued a certificate, but the response was lost.
func TestLostAnswerAsksWithTheSameKey(t *testing.T) {
	p := newFakePlatform(t)
	cfg := p.config(nil).withDefaults()
	cfg.Token = p.mint(t, nil)
	var keys []string
	restore := p.instead(onEnroll, func(_ http.ResponseWriter, r *http.Request) {
		keys = append(keys, requestKey(t, r))
		panic(http.ErrAbortHandler)
	})
	e := enrollment{cfg: cfg, creds: credentialsIn(cfg.Dir), token: cfg.Token}
	if o, _ := e.run(t.Context()); o.OK() || !o.Sent {
		t.Fatalf("%+v", o)
	}
	restore()
	p.instead(onEnroll, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, requestKey(t, r))
		deny(w, 503, "later")
	})
	e.run(t.Context())
	if len(keys) != 2 || keys[0] != keys[1] {
		t.Errorf("keys %v", keys)
	}
}

func TestRotateTask(t *testing.T) {
	p := newFakePlatform(t)
	cfg, rec := recoveryConfig(t, p)
	log := &logtest.Log{}
	cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	p.credentials(t, cfg.Dir, p.ca, time.Now().Add(time.Hour))
	start(t, cfg)
	token := p.mint(t, nil).Reveal()
	p.task("rotate", wire.TaskRotateToken, wire.RotateTokenPayload{Token: token})
	if r := p.resultOf("rotate"); r.Status != wire.TaskCompleted || strings.Contains(string(r.Output), "canary") {
		t.Errorf("result %+v %s", r, r.Output)
	}
	d := rec.await(t, func(d Decision) bool { return d.Reason == diag.RecRecoveryTokenRotated })
	if text, _ := os.ReadFile(filepath.Join(cfg.Dir, "agent.env")); !strings.Contains(string(text), KeyToken+"="+token) ||
		d.TaskID != "rotate" {
		t.Errorf("%+v, environment %s", d, text)
	}
	p.task("foreign", wire.TaskRotateToken,
		wire.RotateTokenPayload{Token: p.mint(t, func(c *wire.TokenClaims) { c.NodeID = "node-2" }).Reveal()})
	if r := p.resultOf("foreign"); r.Error == nil || r.Error.Code != CodeTokenRefused {
		t.Errorf("result %+v", r)
	}
	if strings.Contains(log.String(), "recovery-canary") {
		t.Error("the log holds the token")
	}
}

// TestDamagedCredentialComesBack empties the certificate of a running agent.
func TestDamagedCredentialComesBack(t *testing.T) {
	p := newFakePlatform(t)
	cfg, rec := recoveryConfig(t, p)
	cfg.Token = diag.Secret{}
	first := p.credentials(t, cfg.Dir, p.ca, time.Now().Add(time.Hour))
	creds := credentialsIn(cfg.Dir)
	_, err := creds.Migrate()
	must(t, err)
	set := p.set(t)
	_, err = creds.Put(set)
	must(t, err)
	start(t, cfg)
	p.served(t, func(s string) bool { return s != first })
	must(t, os.WriteFile(creds.Path(fileCert), nil, 0o644))
	rec.await(t, func(d Decision) bool { return d.What == "fall_back" && d.Reason == diag.RecCertKeyMismatch })
	p.served(t, func(s string) bool { return s == first })
}

// TestTooManyRequests: the agent honors the pause that the platform asks for.
func TestTooManyRequests(t *testing.T) {
	for name, header := range map[string]func() string{
		"seconds": func() string { return "120" },
		"a date":  func() string { return time.Now().Add(2 * time.Minute).UTC().Format(http.TimeFormat) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newFakePlatform(t)
			cfg, rec := recoveryConfig(t, p)
			p.credentials(t, cfg.Dir, p.ca, time.Now().Add(time.Hour))
			p.instead(onWait, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", header())
				w.WriteHeader(http.StatusTooManyRequests)
			})
			start(t, cfg)
			d := rec.await(t, func(d Decision) bool { return d.Reason == diag.RecEdgeRateLimited })
			if d.Delay < time.Minute { // a Date is the time at which the response was written
				t.Errorf("asks again in %v", d.Delay)
			}
		})
	}
}

// TestPublicEdgeCannotRevokeByEnrollment: a listener that requests no certificate cannot decide about identities.
func TestPublicEdgeCannotRevokeByEnrollment(t *testing.T) {
	p := newFakePlatform(t)
	cfg, rec := recoveryConfig(t, p)
	cfg.Token = p.mint(t, nil)
	p.server.TLS.ClientAuth = tls.NoClientCert
	p.instead(onEnroll, func(w http.ResponseWriter, _ *http.Request) { deny(w, 403, wire.DenyRevoked) })
	start(t, cfg)
	d := rec.await(t, func(d Decision) bool { return d.About == "identity" && d.What == "retry" })
	if d.Reason != diag.RecEndpointProfileDrift {
		t.Errorf("decision %+v", d)
	}
}

var errNoRoute = errors.New("no route")

// TestRecoveryPathIsAsked: the runtime's endpoint is gone, but the recovery endpoint works.
func TestRecoveryPathIsAsked(t *testing.T) {
	p := newFakePlatform(t)
	cfg, _ := recoveryConfig(t, p)
	cfg.Token = p.mint(t, nil)
	p.credentials(t, cfg.Dir, p.ca, time.Now().Add(-time.Minute))
	cfg.RecoveryURL = cfg.APIURL
	cfg.APIURL, _ = url.Parse("https://gone.test")
	dial := cfg.withDefaults().Dial
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasPrefix(address, "gone.test") {
			return nil, errNoRoute
		}
		return dial(ctx, network, address)
	}
	start(t, cfg)
	wait.For(t, "it enrolls", func() bool { return p.enrollments() > 0 })
}

// TestEnrollmentOutlivesAStop: a stop grants a running enrollment its grace period. An agent that is about to be
// restarted for an operator's bundle may notice the bundle by itself, and would enroll twice if it were cut off.
func TestEnrollmentOutlivesAStop(t *testing.T) {
	p := newFakePlatform(t)
	cfg, _ := recoveryConfig(t, p)
	cfg.Token = p.mint(t, nil)
	r := newRuntime(cfg.withDefaults())
	defer r.api.close()
	r.cancelWork()
	now := time.Now()
	ledger := r.ledger.load(now).begin(now, diag.RecCertMissing, tokenFacts(r.token()).Digest)
	r.enroll(Enroll{Ledger: ledger})
	if done, ok := (<-r.events).(EnrollDone); !ok || !done.Outcome.OK() || p.enrollments() != 1 {
		t.Errorf("%+v, %d enrollments", done, p.enrollments())
	}
	r.wg.Wait()
}

func newKeyPEM(t testing.TB) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// set returns the set that an enrollment would bring.
func (p *fakePlatform) set(t testing.TB) credstore.Set {
	t.Helper()
	key, text := newKeyPEM(t)
	cert := p.ca.issue(t, testNode, &key.PublicKey, time.Now().Add(time.Hour))
	return credstore.Set{Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), Key: text,
		Bundle: []byte(p.ca.pem())}
}

// requestKey returns the public key of a certificate request.
func requestKey(t testing.TB, r *http.Request) string {
	t.Helper()
	var in wire.EnrollRequest
	must(t, json.NewDecoder(r.Body).Decode(&in))
	block, _ := pem.Decode([]byte(in.CSR))
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	must(t, err)
	return string(csr.RawSubjectPublicKeyInfo)
}

// TestPlatformGoneForLongerThanTheCertificate: two days without a platform use up neither the budget nor the disk.
func TestPlatformGoneForLongerThanTheCertificate(t *testing.T) {
	ca := newAuthority(t, "test CA")
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, fileBundle), []byte(ca.pem()), 0o644))
	synctest.Test(t, func(t *testing.T) {
		(*fakePlatform)(nil).credentials(t, dir, ca, time.Now().Add(12*time.Hour))
		token, err := wire.Token(wire.TokenClaims{NodeID: testNode, ExpiresAt: time.Now().Add(72 * time.Hour)}, "s")
		must(t, err)
		rec := newDecisions()
		dials := 0
		ctx, cancel := context.WithTimeout(t.Context(), 48*time.Hour)
		defer cancel()
		must(t, Run(ctx, Config{NodeID: testNode, APIURL: &url.URL{Scheme: "https", Host: "api.test:443"}, Dir: dir,
			Recorder: rec, Token: diag.NewSecret(token), Dial: func(context.Context, string, string) (net.Conn, error) {
				dials++
				return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
			}}))
		tries := 0
		for _, d := range rec.list {
			if d.What == "enroll" {
				tries++
			}
		}
		f := ledgerFile{dir: filepath.Join(dir, "state")}
		l := f.load(time.Now())
		if wait, why := l.overspent(time.Now(), tokenFacts(diag.NewSecret(token)).Digest); wait > 0 {
			t.Errorf("the budget is gone though nobody was asked: %s", why)
		}
		if perHour := float64(tries) / 36; perHour < 5 || perHour > 40 {
			t.Errorf("%.1f attempts an hour", perHour)
		}
		t.Logf("%d attempts in 36 h, %d dials", tries, dials)
	})
}

// TestAnEnrollmentDoesNotCutTheNodeOff: a bundle that does not cover the platform's own listener does not replace
// one that does; a bundle that covers it is installed, and if neither does, the platform's bundle is.
func TestAnEnrollmentDoesNotCutTheNodeOff(t *testing.T) {
	stranger := newAuthority(t, "another CA").pem()
	for name, c := range map[string]struct {
		here, answered func(own string) string
		kept           bool
	}{
		"the answer's is wrong": {func(own string) string { return own }, func(string) string { return stranger }, true},
		"the answer's is wider": {func(own string) string { return own }, func(own string) string { return own + stranger },
			false},
		"the one here is stale": {func(string) string { return stranger }, func(own string) string { return own }, false},
		"both are wrong": {func(string) string { return stranger }, func(string) string {
			return newAuthority(t, "a third CA").pem()
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFakePlatform(t)
			cfg := p.config(nil).withDefaults()
			cfg.Token = p.mint(t, nil)
			here, answered := c.here(p.ca.pem()), c.answered(p.ca.pem())
			pinned := filepath.Join(t.TempDir(), "recovery.crt")
			must(t, os.WriteFile(pinned, []byte(p.ca.pem()), 0o600))
			cfg.RecoveryCA = pinned
			must(t, os.WriteFile(filepath.Join(cfg.Dir, fileBundle), []byte(here), 0o600))
			p.instead(onEnroll, func(w http.ResponseWriter, r *http.Request) {
				rec := httptest.NewRecorder()
				p.enroll(rec, r)
				var answer wire.EnrollResponse
				must(t, json.NewDecoder(rec.Body).Decode(&answer))
				answer.CABundle = answered
				must(t, json.NewEncoder(w).Encode(answer))
			})
			e := enrollment{cfg: cfg, creds: credentialsIn(cfg.Dir), token: cfg.Token, recovery: true}
			o, _ := e.run(t.Context())
			want := answered
			if c.kept {
				want = here
			}
			got, err := os.ReadFile(filepath.Join(cfg.Dir, fileBundle))
			if err != nil || string(got) != want || !o.OK() || strings.Contains(o.Detail, "is kept") != c.kept {
				t.Errorf("kept %v, %+v, %v", string(got) == here, o, err)
			}
		})
	}
}
