package host

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestContainer: a container is described by its runtime's socket.
func TestContainer(t *testing.T) {
	tier.NeedsHost(t)
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for name, body := range map[string]string{
		"up": `{"Name":"/up","RestartCount":2,"Config":{"Image":"agent:1","Env":["TOKEN=abcdefgh"]},` +
			`"State":{"Status":"running","Pid":7,"ExitCode":0,"Health":{"Status":"healthy"}}}`,
		"down": `{"Name":"/down","State":{"Status":"exited","ExitCode":137}}`,
		"odd":  `{"State":{}}`,
		"bad":  `<html>`,
	} {
		mux.HandleFunc("/containers/"+name+"/json", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(body))
		})
	}
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	for name, want := range map[string]diag.Failure{
		"up": diag.OK, "down": diag.UnitInactive, "odd": diag.HTTPMalformed, "bad": diag.HTTPMalformed,
		"none": diag.UnitMissing, "a/../b": diag.UnitMissing,
	} {
		f := diag.Fact{}
		(&Prober{}).container(t.Context(), diag.Request{Target: name, Socket: socket}, &f)
		if f.Failure != want {
			t.Errorf("%s: %+v", name, f)
		}
		if name == "up" && (f.Container == nil || f.Container.Health != "healthy" || f.Container.Restarts != 2) {
			t.Errorf("%+v", f.Container)
		}
	}
	for path, want := range map[string]diag.Failure{
		otherSockets[0]: diag.Unsupported, filepath.Join(t.TempDir(), "none"): diag.TCPRefused,
	} {
		f := diag.Fact{}
		(&Prober{}).container(t.Context(), diag.Request{Target: "x", Socket: path}, &f)
		if f.Failure != want || f.Container != nil {
			t.Errorf("%s: %+v", path, f)
		}
	}
}

// TestProcess: processes are found by the name of their program, and by their arguments.
func TestProcess(t *testing.T) {
	tier.NeedsHost(t)
	f := diag.Fact{}
	(&Prober{}).process(t.Context(), diag.Request{Target: "nothing-of-this-name"}, &f)
	if f.Failure != diag.UnitInactive || f.Process == nil || f.Process.Count != 0 {
		t.Errorf("%+v", f)
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	other := exec.Command("sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait() // it was killed
	}()
	for match, want := range map[string]bool{"600": true, "601": false} {
		f = diag.Fact{}
		(&Prober{}).process(t.Context(), diag.Request{Target: "sleep", Match: []string{match}}, &f)
		if got := f.Process != nil && slices.Contains(f.Process.PIDs, other.Process.Pid); got != want {
			t.Errorf("%s: %+v", match, f.Process)
		}
	}
}
