package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/leaktest"
)

func TestMain(m *testing.M) {
	if strings.HasPrefix(filepath.Base(os.Args[0]), step.Program+"-") {
		os.Exit(fault())
	}
	leaktest.Main(m)
}

// fault is this test binary's main function when it was pushed as gpuaas-fault: it reports its input.
func fault() int {
	r := step.Reply{Schema: step.ReplySchema, Version: "test"}
	switch os.Args[1] {
	case "revert":
		r.Refused = step.Refuse(step.RefusedNone, "there is no drill on this machine")
	case "verify": // hangs until its server ends it
		time.Sleep(20 * time.Second)
	case "close": // fails like a program for another architecture
		fmt.Fprint(os.Stderr, "illegal instruction")
		return 132
	}
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 1
	}
	sum := sha256.Sum256(in)
	r.Error = fmt.Sprintf("%s %d %s", strings.Join(os.Args[1:], "|"), len(in), hex.EncodeToString(sum[:4]))
	_ = json.NewEncoder(os.Stdout).Encode(r)
	if r.Refused != nil {
		return step.ExitRefused
	}
	return 0
}

type out = drill.Output

// bench is a fake machine with its server.
type bench struct {
	*sshtest.Server
	bin, dir string // programs that shadow the real ones; the tmpfs
	cfg      Config
}

// newBench creates a machine on which every login is root and every folder is a mount.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{bin: t.TempDir(), dir: filepath.Join(t.TempDir(), "tmpfs")}
	b.program(t, "id", "echo 0")
	b.program(t, "mountpoint", `test -d "$2"`)
	b.program(t, "mount", "exit 0")
	b.program(t, "umount", "exit 0")
	b.Server = sshtest.Start(t, sshtest.Config{Env: []string{"PATH=" + b.bin + ":" + os.Getenv("PATH")}})
	ours := t.TempDir()
	if err := os.Symlink(sshtest.Helper(t), filepath.Join(ours, step.Program)); err != nil {
		t.Fatal(err)
	}
	b.cfg = Config{dir: b.dir, Programs: []string{ours}, Node: vantage.NodeConfig{
		ID: "node-1", Host: b.Host, SSH: b.Login(t), ConfigFile: "none", AgentSocket: "none",
		ConnectTimeout: 30 * time.Second,
	}}
	return b
}

func (b *bench) program(t *testing.T, name, text string) {
	t.Helper()
	sshtest.Program(t, filepath.Join(b.bin, name), "#!/bin/sh\n"+text+"\n")
}

// open returns a machine that is closed with the test. On a busy machine Close gives up on operations that end a
// moment later; one that never ends is a leak.
func (b *bench) open(t *testing.T) *Machine {
	t.Helper()
	m := New(b.cfg)
	t.Cleanup(func() {
		began := time.Now()
		if err := m.Close(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("closing: %v", err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("Close took %s", took)
		}
	})
	return m
}

// pushed lists the files in the tmpfs.
func (b *bench) pushed(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(b.dir + "/*")
	if err != nil {
		t.Fatal(err)
	}
	return all
}
