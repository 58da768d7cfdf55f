package vantage

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

func TestOneConnectionAnswersEverything(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	n := open(t, configFor(t, s))
	ctx := within(t, 30*time.Second)
	reqs := []diag.Request{
		{ID: "login", Op: diag.OpSSH, Target: "node"},
		{ID: "clock", Op: diag.OpClock},
		{ID: "disk", Op: diag.OpDisk, Target: "/"},
	}
	var wg sync.WaitGroup
	for range 4 { // concurrent first calls share the connection
		wg.Go(func() {
			facts := n.Probe(ctx, reqs)
			for i, f := range facts {
				if f.ID != reqs[i].ID || f.Vantage != "node" || f.Failure != diag.OK {
					t.Errorf("fact %d: %s %s %q (%s) %s", i, f.ID, f.Vantage, f.Failure, f.Phase, f.Detail)
				}
			}
		})
	}
	wg.Wait()
	if got := s.Logins(); got != 1 {
		t.Errorf("%d logins, want one", got)
	}
	if got := len(s.Execs()); got != 1 {
		t.Errorf("%d commands, want one", got)
	}
	f := loginFact(ctx, n)
	if f.SSH == nil || f.SSH.Helper != "installed" || f.SSH.HelperVersion != sshtest.Version || f.SSH.UID == nil ||
		f.SSH.AuthMethod != "key" {
		t.Errorf("what is said of the login: %+v", f.SSH)
	}
	if f.SSH.TCPMS == 0 || f.SSH.BannerMS == 0 || f.SSH.AuthMS == 0 || f.SSH.ExecMS == 0 {
		t.Errorf("a phase was not timed: %+v", f.SSH)
	}
	info := n.Info()
	if info.Missing != "" || info.How != "ssh root@"+s.Addr || info.ClockOffsetMS == nil {
		t.Errorf("the vantage: %+v", info)
	}
}

func TestClockOffset(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	n := open(t, configFor(t, s))
	f := n.Probe(within(t, 30*time.Second), []diag.Request{{ID: "clock", Op: diag.OpClock}})[0]
	if f.Clock == nil || f.Clock.OffsetMS == nil || f.Clock.ErrorMS == nil {
		t.Fatalf("no offset: %+v", f)
	}
	if off, e := *f.Clock.OffsetMS, *f.Clock.ErrorMS; off < -e-1 || off > e+1 {
		t.Errorf("the same clock differs by %d ms, uncertain by %d ms", off, e)
	}
}

func TestSampleIsNTPs(t *testing.T) {
	sent := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var c clockOffset
	c.add(sent.Add(5*time.Second+50*time.Millisecond), sent, sent.Add(100*time.Millisecond))
	c.add(sent.Add(9*time.Second), sent, sent.Add(time.Second)) // less certain: ignored
	if off, e := c.millis(); off != 5000 || e != 50 {
		t.Errorf("offset %d ms +- %d ms, want 5000 +- 50", off, e)
	}
}

func TestRequestsAskedEarlyTravelWithTheCommand(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	n := open(t, configFor(t, s))
	big := diag.Request{ID: "big", Op: diag.OpFile, Target: "/etc/hostname", CAInline: string(make([]byte, inlineLimit))}
	facts := n.Probe(within(t, 30*time.Second),
		[]diag.Request{{ID: "clock", Op: diag.OpClock, Target: `it's "q" \ $HOME`}, big})
	if facts[0].Failure != diag.OK {
		t.Errorf("early request: %q %s", facts[0].Failure, facts[0].Detail)
	}
	if facts[0].Request.Target != `it's "q" \ $HOME` {
		t.Errorf("the request came back as %q", facts[0].Request.Target)
	}
	if f := facts[1].Failure; f == diag.Timeout || f == diag.SSHTransport {
		t.Errorf("a request too big to travel with the command: %q %s", f, facts[1].Detail)
	}
}

// Quoting makes a backslash five characters long; requests that then exceed the limit of an argument are sent as data.
func TestRequestThatQuotingMakesTooLong(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	n := open(t, configFor(t, s))
	req := diag.Request{ID: "clock", Op: diag.OpClock, CAInline: strings.Repeat(`\`, inlineLimit/2-1000)}
	if f := n.Probe(within(t, 30*time.Second), []diag.Request{req})[0]; f.Failure != diag.OK {
		t.Errorf("%q %s", f.Failure, f.Detail)
	}
	if got := len(s.Execs()[0]); got > commandLimit {
		t.Errorf("a command of %d bytes", got)
	}
}

func TestSecretsAreNotSentToANode(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	n := open(t, configFor(t, s))
	f := n.Probe(within(t, 30*time.Second),
		[]diag.Request{{Op: diag.OpHTTP, Target: "https://192.0.2.1/", Token: diag.NewSecret("very-secret-words")}})[0]
	if f.Failure != diag.Unsupported {
		t.Errorf("%q %s", f.Failure, f.Detail)
	}
	for _, cmd := range s.Execs() {
		if strings.Contains(cmd, "very-secret") {
			t.Error("the secret is in the command")
		}
	}
}

func TestOperator(t *testing.T) {
	o := Operator(nil)
	f := o.Probe(within(t, 30*time.Second), []diag.Request{{ID: "a", Op: diag.OpClock}, {ID: "b", Op: "nonsense"}})
	if f[0].ID != "a" || f[0].Failure != diag.OK || f[0].Vantage != "operator" || f[1].ID != "b" ||
		f[1].Failure != diag.Unsupported {
		t.Errorf("%+v", f)
	}
	if err := o.Close(); err != nil || o.Name() != "operator" {
		t.Error(err, o.Name())
	}
}

func TestBrokenConnectionIsATransportFailure(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	n := open(t, configFor(t, s))
	ctx := within(t, 30*time.Second)
	if f := loginFact(ctx, n); f.Failure != diag.OK {
		t.Fatal(f.Failure, f.Detail)
	}
	s.Drop()
	f := n.Probe(ctx, []diag.Request{{ID: "clock", Op: diag.OpClock}})[0]
	wantFailure(t, f, diag.SSHTransport, "ssh")
}

// loggedIn returns a vantage whose login is done, and no longer fresh.
func loggedIn(t *testing.T, s *sshtest.Server) *Node {
	t.Helper()
	n := open(t, configFor(t, s))
	if f := loginFact(within(t, 30*time.Second), n); f.Failure != diag.OK {
		t.Fatal(f.Failure, f.Detail)
	}
	l := n.connect()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.helloAt = l.helloAt.Add(-freshFor)
	return n
}

func TestFrozenNodeNeverBlocks(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	n := loggedIn(t, s)
	s.Freeze()
	began := time.Now()
	facts := n.Probe(within(t, 500*time.Millisecond),
		[]diag.Request{{ID: "clock", Op: diag.OpClock}, {ID: "login", Op: diag.OpSSH}})
	if took := time.Since(began); took > 20*time.Second { // the requests' own timeout is longer
		t.Errorf("blocked for %s of 500ms", took)
	}
	wantFailure(t, facts[0], diag.Timeout, "ssh")
	wantFailure(t, facts[1], diag.Timeout, "exec")
}

// TestSilentHelperIsNoBrokenConnection: a node that is out of processor time answers on the connection, and its helper
// does not.
func TestSilentHelperIsNoBrokenConnection(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	n := loggedIn(t, s)
	s.StopCommands()
	ask := []diag.Request{{ID: "clock", Op: diag.OpClock, TimeoutMS: 100}}
	wantFailure(t, n.Probe(within(t, 30*time.Second), ask)[0], diag.Cancelled, "ssh")
	s.Freeze()
	wantFailure(t, n.Probe(within(t, 30*time.Second), ask)[0], diag.Timeout, "ssh")
}

func TestCancelAtEachStage(t *testing.T) {
	for name, fault := range map[string]sshtest.Fault{
		"banner": sshtest.Silent, "host_key": sshtest.HangAtKex, "auth": sshtest.HangAtAuth, "exec": sshtest.HangAtOpen,
		"exec ": sshtest.SilentExec,
	} {
		t.Run(name, func(t *testing.T) {
			s := sshtest.Start(t, sshtest.Config{})
			s.Set(fault)
			cfg := configFor(t, s)
			cfg.ConnectTimeout = time.Minute
			n := open(t, cfg)
			phase := strings.TrimSpace(name)
			ctx, cancel := context.WithCancelCause(t.Context())
			var enough time.Time
			var reached sync.WaitGroup
			reached.Go(func() {
				l := n.connect()
				wait.Until(t, func() bool { return l.at() == phase && (fault != sshtest.SilentExec || len(s.Execs()) > 0) })
				enough = time.Now()
				cancel(errors.New("enough"))
			})
			facts := n.Probe(ctx, []diag.Request{{ID: "login", Op: diag.OpSSH}, {ID: "clock", Op: diag.OpClock}})
			reached.Wait()
			if took := time.Since(enough); took > 20*time.Second { // the login would continue for a minute
				t.Errorf("cancelled only after %s", took)
			}
			wantFailure(t, facts[0], diag.Cancelled, phase)
			wantFailure(t, facts[1], diag.Cancelled, "ssh")
		})
	}
}

func TestClosedVantageAnswers(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	n := NewNode(configFor(t, s))
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	f := n.Probe(t.Context(), []diag.Request{{ID: "clock", Op: diag.OpClock}})[0]
	wantFailure(t, f, diag.Cancelled, "ssh")
	if s.Logins() != 0 {
		t.Error("it connected")
	}
}
