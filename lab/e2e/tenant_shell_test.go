//go:build linux

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab"
	"github.com/gpuaas/gpuaasctl/profile"
)

// tenant is a tenant's terminal, opened as a browser does.
type tenant struct {
	t    *testing.T
	conn *websocket.Conn
	n    int
}

func openTerminal(t *testing.T, l *lab.Lab, machine string) *tenant {
	t.Helper()
	var minted struct{ Token, URL string }
	out := on(t, l, platform,
		`curl -sSf -X POST -H "Authorization: Bearer $(cat /etc/gpuaas-platform/operator.token)" http://127.0.0.1:8080/v1/allocations/`+lab.Machine{Name: machine}.Allocation()+`/terminal-token`)
	if err := json.Unmarshal([]byte(out), &minted); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p, _, err := profile.Load("lab", profile.Sources{Dir: profile.Dir(os.Getenv), Env: os.Getenv})
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(p.Trust.OperatorCA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(p.TerminalResolveAddress, "443"))
		},
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, minted.URL, &websocket.DialOptions{
		HTTPClient: client, Subprotocols: []string{wire.TerminalSubprotocol, wire.BearerPrefix + minted.Token}})
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(16 << 20)
	s := &tenant{t: t, conn: conn}
	t.Cleanup(s.leave)
	s.do("stty -echo; PS1=; PS2=") // do not read the typed text back
	return s
}

// leave closes the window.
func (s *tenant) leave() { _ = s.conn.Close(websocket.StatusNormalClosure, "") }

// do runs a command and returns what it printed.
func (s *tenant) do(command string) string {
	s.t.Helper()
	s.n++
	a := 1_000_000 + s.n
	s.write(fmt.Sprintf("%s\necho end-$((%d*7))\n", command, a))
	end := fmt.Sprintf("end-%d", a*7)
	var all strings.Builder
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for !strings.Contains(all.String(), end) {
		kind, b, err := s.conn.Read(ctx)
		if err != nil {
			s.t.Fatalf("%s: %v after %q", command, err, all.String())
		}
		if kind == websocket.MessageBinary {
			all.Write(b)
		}
	}
	out, _, _ := strings.Cut(all.String(), end)
	return strings.ReplaceAll(out, "\r\n", "\n")
}

// rest returns what is printed until the session ends, or for ten seconds.
func (s *tenant) rest() string {
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	var all strings.Builder
	for {
		_, b, err := s.conn.Read(ctx)
		if err != nil {
			return all.String() + " (" + err.Error() + ")"
		}
		all.Write(b)
	}
}

// write types keys.
func (s *tenant) write(keys string) {
	s.t.Helper()
	if err := s.conn.Write(s.t.Context(), websocket.MessageBinary, []byte(keys)); err != nil {
		s.t.Fatal(err)
	}
}

// sessionUnits returns the units of terminals on the node.
func sessionUnits(t *testing.T, l *lab.Lab, machine string) string {
	t.Helper()
	return strings.TrimSpace(
		on(t, l, machine, `systemctl list-units --all --no-legend --plain 'gpuaas-session-*' | cut -d' ' -f1`))
}

// processes returns the tenant's processes except the workload's, "PID NAME" per line.
func processes(t *testing.T, l *lab.Lab, machine string) string {
	t.Helper()
	return strings.TrimSpace(on(t, l, machine, `for p in $(pgrep -u tenant01); do
grep -q gpuaas-app- /proc/$p/cgroup 2>/dev/null || echo $p $(cat /proc/$p/comm 2>/dev/null); done; true`))
}

// gone repeats a check until it finds nothing.
func gone(t *testing.T, what string, look func() string) {
	t.Helper()
	var left string
	for began := time.Now(); time.Since(began) < settle; time.Sleep(200 * time.Millisecond) {
		if left = look(); left == "" {
			return
		}
	}
	t.Errorf("%s: left are\n%s", what, left)
}
