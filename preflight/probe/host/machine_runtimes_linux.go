package host

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// runtimePatience is how long a container runtime on the same machine may take to answer.
const runtimePatience = time.Second

// containerRuntime is a container runtime: its socket, its program, and a greeting that any version answers.
type containerRuntime struct {
	name, path, program string
	greeting            string
	answered            func(*bufio.Reader) (string, error)
}

// http2Greeting opens HTTP/2, which gRPC uses: the client's preface with empty settings. A server answers it with its
// own.
const http2Greeting = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

var containerRuntimes = []containerRuntime{
	{"docker", "run/docker.sock", "dockerd", "GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n", httpAnswer},
	{"containerd", "run/containerd/containerd.sock", "containerd", http2Greeting, http2Answer},
	{"cri-o", "run/crio/crio.sock", "crio", http2Greeting, http2Answer},
}

// askRuntimes asks the runtimes whose program runs: to connect to the socket of another would have systemd start it.
func askRuntimes(ctx context.Context, root string, running map[string]bool) []diag.RuntimeSocket {
	var all []diag.RuntimeSocket
	for _, r := range containerRuntimes {
		path := filepath.Join(root, r.path)
		if st, err := os.Stat(path); err != nil || st.Mode()&os.ModeSocket == 0 || !running[r.program] {
			continue
		}
		all = append(all, diag.RuntimeSocket{Name: r.name, Path: path, State: r.ask(ctx, path)})
	}
	return all
}

// ask greets a runtime, and returns the state of its socket.
func (r *containerRuntime) ask(ctx context.Context, path string) string {
	patience := measure.Briefly(ctx, runtimePatience)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case errors.Is(err, os.ErrPermission):
		return diag.RuntimeDenied
	case errors.Is(err, syscall.ECONNREFUSED):
		return diag.RuntimeRefused
	case err != nil:
		return diag.RuntimeSilent
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience)) // else the read below has none, and ctx is over by then
	if _, err := io.WriteString(conn, r.greeting); err != nil {
		return diag.RuntimeSilent
	}
	state, err := r.answered(bufio.NewReaderSize(conn, 512))
	if err != nil {
		return diag.RuntimeSilent
	}
	return state
}

func httpAnswer(from *bufio.Reader) (string, error) {
	line, err := from.ReadSlice('\n')
	words := strings.Fields(string(line))
	switch {
	case err != nil:
		return "", err
	case len(words) < 2 || !strings.HasPrefix(words[0], "HTTP/") || len(words[1]) != 3:
		return "answers, and not as HTTP", nil
	case words[1] == "200":
		return diag.RuntimeAnswers, nil
	}
	return "HTTP status " + words[1], nil
}

func http2Answer(from *bufio.Reader) (string, error) {
	var head [9]byte // of a frame
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return "", err
	}
	return diag.RuntimeAnswers, nil
}
