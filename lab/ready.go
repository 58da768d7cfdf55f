//go:build linux

package lab

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

const (
	pollEvery     = 25 * time.Millisecond
	tryBudget     = 2 * time.Second        // one try of one question
	startBudget   = 3 * time.Second        // until a started supervisor must be visible
	connectBudget = 100 * time.Millisecond // a SYN that is sent before the machine is up is repeated only after 1 s
	awaitBudget   = 30 * time.Second       // until a machine, the platform or an agent is ready
)

// errFinal wraps an error that will not go away by waiting.
var errFinal = errors.New("gave up")

// poll calls ask until it returns nil or a final error, or awaitBudget or ctx ends; then it returns the last
// result.
func poll(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, awaitBudget)
	defer cancel()
	for {
		try, end := context.WithTimeout(ctx, tryBudget)
		err := ask(try)
		end()
		if err == nil || errors.Is(err, errFinal) {
			return err
		}
		if !sleep.For(ctx, pollEvery) {
			return fmt.Errorf("not ready within %s: %w", awaitBudget, err)
		}
	}
}

// answersSSH returns nil once m accepts logins. It checks the machine's sockets first: after a connection attempt
// to a machine without an address, the host waits a second before it repeats the ARP request.
func (l *Lab) answersSSH(ctx context.Context, m Machine) error {
	if !Listens(l.leader(m), 22) {
		return errors.New("nothing listens on port 22")
	}
	return dialSSH(ctx, m)
}

// Listens reports whether port is open for TCP over IPv4 in the network namespace of pid.
func Listens(pid, port int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", pid))
	if err != nil {
		return false
	}
	for _, line := range strings.Split(string(data), "\n") {
		f := strings.Fields(line) // sl, local address:port in hex, remote, state (0A = listening)
		if len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
			return true
		}
	}
	return false
}

// dialSSH waits for the banner: a port that a dying machine still holds open sends none.
func dialSSH(ctx context.Context, m Machine) error {
	d := net.Dialer{Timeout: connectBudget}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(m.Address(), "22"))
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(line, "SSH-") {
		return fmt.Errorf("port 22 says %q", line)
	}
	return nil
}

func (l *Lab) awaitSSH(ctx context.Context) (string, error) {
	err := each(l.Machines(), func(m Machine) error {
		began := time.Now()
		err := poll(ctx, func(ctx context.Context) error {
			if time.Since(began) > startBudget && !l.running(m) {
				return fmt.Errorf("%w: %s does not run", errFinal, m.Name)
			}
			return l.answersSSH(ctx, m)
		})
		if err != nil {
			said, _ := os.ReadFile(l.place(m).console())
			return fmt.Errorf("ssh on %s: %w; its console ends with: %s", m.Name, err,
				tail(strings.TrimSpace(string(said)), 400))
		}
		return nil
	})
	return "every machine answers", err
}

// edgeClient returns an HTTP client for the public edge from the operator's view: the lab's own CA, no DNS.
func (l *Lab) edgeClient() (*http.Client, error) {
	ca, err := os.ReadFile(l.secret(fileEdgeCA))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("no certificate in the edge CA's file")
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots},
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			d := net.Dialer{Timeout: connectBudget}
			return d.DialContext(ctx, network, net.JoinHostPort(edgeAddress, "443"))
		},
	}}, nil
}

// get requests path from the public API as the operator and decodes the response, JSON with status 200, into out.
func (l *Lab) get(ctx context.Context, c *http.Client, path string, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+apiHost+path, nil)
	if err != nil {
		return err
	}
	token, err := os.ReadFile(l.secret(fileToken))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", path, resp.Status, tail(strings.TrimSpace(string(body)), 200))
	}
	return json.Unmarshal(body, out)
}

// built reports whether the program exists, so that it can be installed on the machines.
func (l *Lab) built(program string) bool { return exists(filepath.Join(l.opts.Libexec, program)) }

func (l *Lab) awaitPlatform(ctx context.Context) (string, error) {
	if !l.built("gpuaas-platform") {
		return "skipped: gpuaas-platform is not built", nil
	}
	c, err := l.edgeClient()
	if err != nil {
		return "", err
	}
	err = poll(ctx, func(ctx context.Context) error { return l.get(ctx, c, "/healthz", new(any)) })
	return "https://" + apiHost + " at " + edgeAddress, err
}

// nodeModel is the part of the platform's read model of a node that the lab uses.
type nodeModel struct {
	Now   time.Time `json:"now"`
	Agent struct {
		LastSeenAt *time.Time `json:"last_seen_at"`
	} `json:"agent"`
}

// heartbeat returns nil if the node's agent has just sent a heartbeat.
func (l *Lab) heartbeat(ctx context.Context, c *http.Client, node string) error {
	var n nodeModel
	if err := l.get(ctx, c, "/v1/admin/nodes/"+node, &n); err != nil {
		return err
	}
	if n.Agent.LastSeenAt == nil {
		return fmt.Errorf("the platform has not seen %s yet", node)
	}
	if n.Agent.LastSeenAt.Before(l.renewedAt) {
		return fmt.Errorf("the platform has not seen the renewed agent of %s yet", node)
	}
	if age := n.Now.Sub(*n.Agent.LastSeenAt); age > freshHeartbeat {
		return fmt.Errorf("%s was last seen %s ago", node, age.Round(time.Millisecond))
	}
	return nil
}

// freshHeartbeat is twice the lab's heartbeat interval.
const freshHeartbeat = 4 * time.Second

func (l *Lab) awaitAgents(ctx context.Context) (string, error) {
	if !l.built("gpuaas-platform") || !l.built("gpuaas-agent") {
		return "skipped: gpuaas-agent or gpuaas-platform is not built", nil
	}
	c, err := l.edgeClient()
	if err != nil {
		return "", err
	}
	err = each(l.nodes(), func(m Machine) error {
		return poll(ctx, func(ctx context.Context) error { return l.heartbeat(ctx, c, m.Name) })
	})
	text := fmt.Sprintf("%d heartbeats seen", l.state.Nodes)
	if err == nil && l.gpus() > 0 && !l.gpusJudged(ctx, c) {
		text += ", and not all GPUs are judged yet"
	}
	return text, err
}

// gpusWithin bounds the wait for the first judgement of the GPUs: it may never come, as with a fault of theirs.
const gpusWithin = 10 * time.Second

// gpusJudged waits until the platform knows the state of every node's GPUs, and reports whether it does: a walk before
// the first sample is inconclusive.
func (l *Lab) gpusJudged(ctx context.Context, c *http.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, gpusWithin)
	defer cancel()
	return each(l.nodes(), func(m Machine) error {
		return poll(ctx, func(ctx context.Context) error {
			var gpu struct {
				Health string `json:"health"`
			}
			if err := l.get(ctx, c, "/v1/admin/nodes/"+m.Name+"/gpu", &gpu); err != nil {
				return err
			}
			if gpu.Health == "" || gpu.Health == "UNKNOWN" {
				return fmt.Errorf("the GPUs of %s are not judged yet", m.Name)
			}
			return nil
		})
	}) == nil
}
