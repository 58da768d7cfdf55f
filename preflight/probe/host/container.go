package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// runtimeSockets are where runtimes listen that describe a container over HTTP, as docker does.
var runtimeSockets = []string{"/run/docker.sock", "/run/podman/podman.sock"}

// otherSockets are those of runtimes that speak gRPC, which is not read here.
var otherSockets = []string{"/run/containerd/containerd.sock", "/run/crio/crio.sock"}

// mostContainer bounds the description of a container.
const mostContainer = 1 << 20

// container asks a runtime for one container. Failures: unit_missing, not_permitted, unsupported (a runtime that is not
// read), file_missing (no runtime), timeout.
func (p *Prober) container(ctx context.Context, req diag.Request, f *diag.Fact) {
	socket, err := socketOf(req.Socket)
	if err != nil {
		word := diag.FileMissing
		if errors.Is(err, errors.ErrUnsupported) {
			word = diag.Unsupported
		}
		measure.Fail(f, "socket", word, err)
		return
	}
	status, body, err := askRuntime(ctx, socket, req.Target)
	switch {
	case measure.Interrupted(ctx, f, "runtime"):
	case errors.Is(err, fs.ErrPermission):
		measure.Fail(f, "socket", diag.NotPermitted, err)
	case err != nil:
		measure.Fail(f, "runtime", diag.TCPRefused, err)
	case status == http.StatusNotFound:
		measure.Fail(f, "runtime", diag.UnitMissing, fmt.Errorf("%s knows no container %q", socket, req.Target))
	case status != http.StatusOK:
		measure.Fail(f, "runtime", diag.HTTPStatus, fmt.Errorf("%s answered %d", socket, status))
	default:
		if f.Container, err = containerOf(body); err != nil {
			measure.Fail(f, "runtime", diag.HTTPMalformed, err)
			return
		}
		if f.Container.Runtime = socket; f.Container.State != "running" {
			f.Failure, f.Phase = diag.UnitInactive, "runtime"
		}
	}
}

// socketOf returns the socket to ask.
func socketOf(named string) (string, error) {
	isSocket := func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.Mode()&fs.ModeSocket != 0
	}
	if named != "" {
		for _, other := range otherSockets {
			if named == other {
				return "", fmt.Errorf("%s speaks gRPC, which is not read here: %w", named, errors.ErrUnsupported)
			}
		}
		return named, nil
	}
	for _, path := range runtimeSockets {
		if isSocket(path) {
			return path, nil
		}
	}
	for _, path := range otherSockets {
		if isSocket(path) {
			return "", fmt.Errorf("only %s is here, which speaks gRPC and is not read: %w", path, errors.ErrUnsupported)
		}
	}
	return "", fmt.Errorf("no runtime listens at %s", strings.Join(runtimeSockets, " or "))
}

// askRuntime asks a runtime, as docker's API is, for one container.
func askRuntime(ctx context.Context, socket, name string) (status int, body []byte, err error) {
	transport := &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}
	defer transport.CloseIdleConnections()
	target := "http://runtime/containers/" + url.PathEscape(name) + "/json"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return 0, nil, err
	}
	client := http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = bounded.Read(resp.Body, mostContainer)
	return resp.StatusCode, body, err
}

// containerOf reads the parts of a description that a check is about. It has more, such as the environment, whose
// values may be secrets.
func containerOf(body []byte) (*diag.ContainerFacts, error) {
	var d struct {
		Name         string
		RestartCount int
		Config       struct{ Image string }
		State        struct {
			Status   string
			Pid      int
			ExitCode *int
			Health   *struct{ Status string }
		}
	}
	if err := bounded.Unmarshal(body, &d, bounded.Answer()); err != nil {
		return nil, err
	}
	if d.State.Status == "" {
		return nil, errors.New("the answer has no state")
	}
	c := &diag.ContainerFacts{Name: strings.TrimPrefix(d.Name, "/"), Image: d.Config.Image, State: d.State.Status,
		Exit: d.State.ExitCode, Restarts: d.RestartCount, PID: d.State.Pid}
	if d.State.Health != nil {
		c.Health = d.State.Health.Status
	}
	return c, nil
}
