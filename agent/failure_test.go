package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/internal/testuser"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// credentials gives the folder a key and a certificate as after an enrollment.
func (p *fakePlatform) credentials(t testing.TB, dir string, by authority, notAfter time.Time) (serial string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	cert := by.issue(t, testNode, &key.PublicKey, notAfter)
	must(t, durable.Replace(filepath.Join(dir, fileKey), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		0o600))
	must(t, durable.Replace(filepath.Join(dir, fileCert), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		0o644))
	leaf, err := x509.ParseCertificate(cert)
	must(t, err)
	return leaf.SerialNumber.Text(16)
}

const (
	onHeartbeat = "POST " + wire.PathHeartbeat
	onWait      = "GET " + wire.PathTaskWait
	onResult    = "POST " + wire.PathTaskResult
	onEnroll    = "POST " + wire.PathEnroll
)

// TestReasons injects one fault at a time and expects the record to name it.
func TestReasons(t *testing.T) {
	page := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, "<html>"+text+"</html>")
		}
	}
	denied := func(code string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { deny(w, 403, code) }
	}
	for name, tc := range map[string]struct {
		on      string
		answer  http.HandlerFunc
		prepare func(t *testing.T, p *fakePlatform, cfg *Config)
		about   Timer
		reason  diag.RecordReason
		failure diag.Failure
	}{
		"revoked": {on: onWait, answer: denied(wire.DenyRevoked), about: TimerWait, reason: diag.RecIdentityRevoked,
			failure: diag.HTTPStatus},
		"fenced": {on: onHeartbeat, answer: denied(wire.DenyFenced), about: TimerHeartbeat,
			reason: diag.RecIdentityRevoked, failure: diag.HTTPStatus},
		"cloned": {on: onHeartbeat, answer: denied(wire.DenyCloned), about: TimerHeartbeat,
			reason: diag.RecClonedIdentity, failure: diag.HTTPStatus},
		"another profile": {on: onHeartbeat, answer: denied(wire.DenyProfileMismatch), about: TimerHeartbeat,
			reason: diag.RecEndpointProfileDrift, failure: diag.HTTPStatus},
		"an unknown word": {on: onHeartbeat, answer: denied("because"), about: TimerHeartbeat,
			reason: diag.RecIdentityRejected, failure: diag.HTTPStatus},
		"too many": {on: onWait, answer: page(429, "slow down"), about: TimerWait, reason: diag.RecEdgeRateLimited,
			failure: diag.HTTPRateLimited},
		"an API in pieces": {on: onWait, answer: page(502, "Bad Gateway"), about: TimerWait, reason: diag.RecTaskPollFailed,
			failure: diag.HTTPStatus},
		"an edge's page": {on: onHeartbeat, answer: page(200, "welcome"), about: TimerHeartbeat,
			reason: diag.RecAPIUnreachable, failure: diag.HTTPEdgePage},
		"an ingress that dislikes a good certificate": {on: onWait, answer: page(400, "The SSL certificate error"),
			about: TimerWait, reason: diag.RecIdentityRejected, failure: diag.MTLSIngress400},
		"an expired certificate is seen before anything is asked": {on: onWait,
			answer: page(400, "The SSL certificate error"), about: TimerIdentity,
			prepare: func(t *testing.T, p *fakePlatform, cfg *Config) {
				p.credentials(t, cfg.Dir, p.ca, time.Now().Add(-time.Minute))
			},
			reason: diag.RecRecoveryTokenMissing, failure: diag.MTLSCertExpired}, // the token is opaque
		"a token that was used": {on: onEnroll, answer: denied(wire.DenyTokenConsumed), about: TimerIdentity,
			reason: diag.RecRecoveryEnrollmentBlocked, failure: diag.HTTPStatus},
		"no token": {about: TimerIdentity, reason: diag.RecRecoveryTokenMissing, failure: diag.FileMissing,
			prepare: func(_ *testing.T, _ *fakePlatform, cfg *Config) { cfg.Token = diag.Secret{} }},
		// the token is opaque
		"a key of somebody else": {about: TimerIdentity, reason: diag.RecRecoveryTokenMissing, failure: diag.FileMismatch,
			prepare: func(t *testing.T, p *fakePlatform, cfg *Config) {
				p.credentials(t, cfg.Dir, p.ca, time.Now().Add(time.Hour))
				cert, err := os.ReadFile(filepath.Join(cfg.Dir, fileCert))
				must(t, err)
				p.credentials(t, cfg.Dir, p.ca, time.Now().Add(time.Hour))
				must(t, os.WriteFile(filepath.Join(cfg.Dir, fileCert), cert, 0o644))
			}},
		"a stale bundle": {about: TimerHeartbeat, reason: diag.RecServerTLSUntrusted, failure: diag.TLSUnknownCA,
			prepare: func(t *testing.T, p *fakePlatform, cfg *Config) {
				p.credentials(t, cfg.Dir, p.ca, time.Now().Add(time.Hour))
				must(t, os.WriteFile(filepath.Join(cfg.Dir, fileBundle), []byte(newAuthority(t, "another CA").pem()), 0o644))
			}},
		"another CA's certificate, said by an alert": {about: TimerHeartbeat, reason: diag.RecIdentityRejected,
			failure: diag.MTLSUnknownCA, prepare: func(t *testing.T, p *fakePlatform, cfg *Config) {
				p.credentials(t, cfg.Dir, newAuthority(t, "another CA"), time.Now().Add(time.Hour))
			}},
		"nobody listens": {about: TimerHeartbeat, reason: diag.RecAPIUnreachable, failure: diag.TCPRefused,
			prepare: func(t *testing.T, p *fakePlatform, cfg *Config) {
				p.credentials(t, cfg.Dir, p.ca, time.Now().Add(time.Hour))
				cfg.APIURL = &url.URL{Scheme: "https", Host: silentPort(t)}
			}},
		"no such name": {about: TimerHeartbeat, reason: diag.RecDNSFailed, failure: diag.DNSNXDomain,
			prepare: func(t *testing.T, p *fakePlatform, cfg *Config) {
				p.credentials(t, cfg.Dir, p.ca, time.Now().Add(time.Hour))
				cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
					return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}
				}
			}},
		"local policy": {about: TimerHeartbeat, reason: diag.RecAPIUnreachable, failure: diag.TCPDenied,
			prepare: func(t *testing.T, p *fakePlatform, cfg *Config) {
				p.credentials(t, cfg.Dir, p.ca, time.Now().Add(time.Hour))
				cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
					return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EPERM)}
				}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFakePlatform(t)
			cfg := p.config(nil)
			rec := newDecisions()
			cfg.Recorder = rec
			if tc.on != "" {
				p.instead(tc.on, tc.answer)
			}
			if tc.prepare != nil {
				tc.prepare(t, p, &cfg)
			}
			start(t, cfg)
			d := rec.await(t, func(d Decision) bool { return d.About == string(tc.about) && d.What == "retry" })
			if d.Reason != tc.reason || (tc.failure != "" && d.Failure != tc.failure) {
				t.Errorf("decision %+v", d)
			}
			if strings.Contains(fmt.Sprint(d), p.token) {
				t.Error("the decision holds the token")
			}
		})
	}
}

// silentPort returns an address that refuses connections until the end of the test: the port is bound, so that no
// other program can listen on it.
func silentPort(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	must(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err := syscall.Getsockname(fd)
	must(t, err)
	return fmt.Sprint("127.0.0.1:", at.(*syscall.SockaddrInet4).Port)
}

// TestAPublicEdgeSaysNothingAboutIdentity: a listener that never requested the certificate cannot revoke an
// identity.
func TestAPublicEdgeSaysNothingAboutIdentity(t *testing.T) {
	p := newFakePlatform(t)
	cfg := p.config(nil)
	p.credentials(t, cfg.Dir, p.ca, time.Now().Add(time.Hour))
	rec := newDecisions()
	cfg.Recorder = rec
	p.server.TLS.ClientAuth = 0 // before the first handshake
	p.instead(onHeartbeat, func(w http.ResponseWriter, _ *http.Request) { deny(w, 403, wire.DenyRevoked) })
	start(t, cfg)
	d := rec.await(t, func(d Decision) bool { return d.About == string(TimerHeartbeat) })
	if d.Reason != diag.RecEndpointProfileDrift || d.Failure != diag.MTLSNotRequested {
		t.Errorf("decision %+v", d)
	}
}

// TestRotatedCertificateIsUsedAtOnce: the agent immediately uses another certificate for the same key, and another
// generation. Between the replacement of two files it may fall back to the earlier ones.
func TestRotatedCertificateIsUsedAtOnce(t *testing.T) {
	p := newFakePlatform(t)
	cfg := p.config(nil)
	set := p.set(t)
	_, err := credentialsIn(cfg.Dir).Put(set)
	must(t, err)
	start(t, cfg)
	seen := func(serial string) {
		t.Helper()
		deadline := time.After(30 * time.Second)
		for {
			p.mu.Lock()
			n := len(p.serials)
			ok := n > 0 && p.serials[n-1] == serial && p.beats[n-1].CertSerial == serial
			p.mu.Unlock()
			if ok {
				return
			}
			select {
			case <-p.beaten:
			case <-deadline:
				t.Fatalf("no heartbeat with certificate %s", serial)
			}
		}
	}
	serial := func(text []byte) string { return parseCerts(text)[0].SerialNumber.Text(16) }
	seen(serial(set.Cert))
	der := p.ca.issue(t, testNode, parseCerts(set.Cert)[0].PublicKey, time.Now().Add(time.Hour))
	again := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	must(t, durable.Replace(filepath.Join(cfg.Dir, fileCert), again, 0o644))
	seen(serial(again))
	set = p.set(t)
	_, err = credentialsIn(cfg.Dir).Put(set)
	must(t, err)
	seen(serial(set.Cert))
}

func TestResultArrivesOnceItCan(t *testing.T) {
	p := newFakePlatform(t)
	restore := p.instead(onResult, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) })
	rec := newDecisions()
	cfg := p.config(nil)
	cfg.Recorder = rec
	start(t, cfg)
	p.task("t1", wire.TaskNoop, nil)
	rec.await(t, func(d Decision) bool { return d.Reason == diag.RecTaskResultPostFailed && d.TaskID == "t1" })
	restore()
	if r := p.resultOf("t1"); r.Status != wire.TaskCompleted {
		t.Errorf("result %+v", r)
	}
}

func TestUnverifiableTaskIsRefused(t *testing.T) {
	p := newFakePlatform(t)
	start(t, p.config(nil))
	task := wire.Task{ID: "forged", NodeID: testNode, Type: wire.TaskNoop, KeyID: "k1", Signature: []byte("x"),
		ExpiresAt: time.Now().Add(time.Minute)}
	p.tasks <- task
	if r := p.resultOf("forged"); r.Status != wire.TaskFailed || r.Error.Code != CodeTaskUnverifiable {
		t.Errorf("result %+v", r)
	}
}

func TestOtherTasks(t *testing.T) {
	p := newFakePlatform(t)
	start(t, p.config(nil))
	p.task("probe", wire.TaskProbe,
		[]diag.Request{{ID: "1", Op: diag.OpDisk, Target: t.TempDir()}, {ID: "2", Op: "nonsense"}})
	if r := p.resultOf("probe"); r.Status != wire.TaskCompleted ||
		!strings.Contains(string(r.Output), `"vantage":"node"`) {
		t.Errorf("result %+v %s", r, r.Output)
	}
	p.task("odd", "make.coffee", nil)
	if r := p.resultOf("odd"); r.Status != wire.TaskFailed || r.Error.Code != CodeTaskUnsupported {
		t.Errorf("result %+v", r)
	}
	p.task("bad", wire.TaskNoop, "text")
	if r := p.resultOf("bad"); r.Status != wire.TaskFailed || r.Error.Code != CodeTaskInvalid {
		t.Errorf("result %+v", r)
	}
	p.task("unit", wire.TaskStatusProbe, wire.StatusProbePayload{Unit: "--help"})
	if r := p.resultOf("unit"); r.Status != wire.TaskFailed || r.Error.Code != CodeTaskInvalid {
		t.Errorf("result %+v", r)
	}
}

func TestShutdownWithEverythingUnderWay(t *testing.T) {
	testuser.Install(t)
	p := newFakePlatform(t)
	opened := p.browse()
	cfg := p.config(nil)
	cfg.grace = time.Minute // it ends as soon as all work is done, which takes a while on a busy machine
	stop := start(t, cfg)
	p.task("shell", wire.TaskTerminalOpen, wire.TerminalOpenPayload{SessionID: "s", OSUser: testuser.Name})
	b := <-opened
	b.frame(t)
	b.typ(t, "trap '' HUP TERM; echo ready-$((1+1)); sleep 600\n")
	b.until(t, "ready-2")
	p.task("hold", wire.TaskNoop, wire.NoopPayload{HoldMS: 60_000})
	p.resultOf("shell")
	p.taken("hold")
	if took := stop(); took > 20*time.Second { // what is under way would take a minute
		t.Errorf("stopping took %v", took)
	}
	<-b.closed
	if r := p.resultOf("hold"); r.Status != wire.TaskFailed || r.Error.Code != CodeAgentStopping {
		t.Errorf("result %+v", r)
	}
}

func TestTerminalGatewayRefusesTheCertificate(t *testing.T) {
	p, gateway := newFakePlatform(t), newFakePlatform(t)
	cfg := p.config(nil)
	must(t, os.WriteFile(filepath.Join(cfg.Dir, fileBundle), []byte(p.ca.pem()+gateway.ca.pem()), 0o644))
	serial := p.credentials(t, cfg.Dir, p.ca, time.Now().Add(time.Hour))
	cfg.TerminalURL, _ = url.Parse(gateway.server.URL) // it accepts only clients with a certificate of its own CA
	start(t, cfg)
	p.task("t", wire.TaskTerminalOpen, wire.TerminalOpenPayload{SessionID: "s", OSUser: testuser.Name})
	if r := p.resultOf("t"); r.Error == nil || r.Error.Code != wire.CodeNodeStreamMTLS {
		t.Errorf("result %+v %+v, certificate %s", r, r.Error, serial)
	}
}

// TestADayAgainstADeadPlatform counts, in virtual time, what an unreachable platform costs.
func TestADayAgainstADeadPlatform(t *testing.T) {
	ca := newAuthority(t, "test CA")
	dir := t.TempDir()
	day := 24 * time.Hour
	if testing.Short() { // the race detector's run: the code is the same
		day /= 8
	}
	(*fakePlatform)(nil).credentials(t, dir, ca, time.Now().Add(time.Hour))
	must(t, os.WriteFile(filepath.Join(dir, fileBundle), []byte(ca.pem()), 0o644))
	synctest.Test(t, func(t *testing.T) {
		rec := newDecisions()
		dials := 0
		ctx, cancel := context.WithTimeout(t.Context(), day)
		defer cancel()
		err := Run(ctx, Config{NodeID: testNode, APIURL: &url.URL{Scheme: "https", Host: "api.test:443"}, Dir: dir,
			Recorder: rec, Dial: func(context.Context, string, string) (net.Conn, error) {
				dials++
				return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
			}})
		must(t, err)
		// Two loops whose delays are drawn below 30 s: 8 tries a minute on average.
		if perMinute := float64(dials) / day.Minutes(); perMinute < 4 || perMinute > 9 {
			t.Errorf("%.1f tries a minute", perMinute)
		}
		last := rec.list[len(rec.list)-1]
		if rec.list[0].Reason != diag.RecProcessAlive || last.Reason != diag.RecShutdown {
			t.Errorf("first %+v, last %+v", rec.list[0], last)
		}
	})
}

func TestConfigErrorsNameTheKey(t *testing.T) {
	env := map[string]string{KeyAPIURL: "http://plain", KeyTaskPubkeys: "canary-not-a-key", KeyHeartbeatInterval: "soon",
		KeyTaskWait: "1ns"}
	_, err := FromEnv(func(k string) string { return env[k] })
	if err == nil {
		t.Fatal("no error")
	}
	for _, key := range []string{KeyNodeID, KeyAPIURL, KeyTaskPubkeys, KeyHeartbeatInterval, KeyTaskWait} {
		if !strings.Contains(err.Error(), key) {
			t.Errorf("%s is not named in: %v", key, err)
		}
	}
	if strings.Contains(err.Error(), "canary") {
		t.Errorf("a value is repeated: %v", err)
	}
}

// TestLowestTenant: one setting defines who is a tenant, and its older key is read as well; neither allows what
// the other denies.
func TestLowestTenant(t *testing.T) {
	for _, tc := range []struct {
		name, older string
		want        uint32
		bad         string
	}{
		{"", "", 1000, ""}, {"2000", "", 2000, ""}, {"", "2000", 2000, ""}, {"0", "", 0, ""}, {"", "0", 0, ""},
		{"1000", "60000", 60000, ""}, {"60000", "0", 60000, ""},
		{"all", "", 0, KeyTenantUIDMin}, {"", "-1", 0, keyTerminalMinUID}, {"4294967296", "", 0, KeyTenantUIDMin},
	} {
		env := map[string]string{KeyNodeID: "n", KeyAPIURL: "https://a", KeyTenantUIDMin: tc.name,
			keyTerminalMinUID: tc.older}
		c, err := FromEnv(func(k string) string { return env[k] })
		bad := tc.bad != ""
		if (bad && (err == nil || !strings.Contains(err.Error(), tc.bad))) || (!bad && c.TenantUIDMin != tc.want) {
			t.Errorf("%q and %q: %d, %v; want %d", tc.name, tc.older, c.TenantUIDMin, err, tc.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "soon": 0, "999999": maxRetryAfter, "10000000000": maxRetryAfter,
		"-10000000000": 0, "Tue, 01 Jan 2030 00:01:00 GMT": time.Minute, "Mon, 31 Dec 2029 00:00:00 GMT": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {text}}, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
