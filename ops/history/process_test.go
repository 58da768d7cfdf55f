package history

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// envWriter makes this test program a writer: its value is the path of a history, and the name of a node.
const envWriter = "HISTORY_TEST_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(envWriter); path != "" {
		if err := writer(path, os.Getenv(envWriter+"_NODE")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// each is how many reports a writer stores, opening the history each time as gpuaasctl does.
const each = 15

func writer(path, node string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for n := range each {
		s, err := opened(ctx, path)
		if err != nil {
			return err
		}
		if err := s.Save(ctx, walk(node, n, diag.OutcomePass), true, true); err != nil {
			return err
		}
		_, err = s.Good(ctx, SubjectOf(walk(node, 0, "").Subject), "", 3)
		for busy(err) && ctx.Err() == nil {
			_, err = s.Good(ctx, SubjectOf(walk(node, 0, "").Subject), "", 3)
		}
		if err != nil {
			return err
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

// TestManyProcesses: six processes create one history and write to it at once; nothing is lost.
func TestManyProcesses(t *testing.T) {
	tier.NeedsHost(t)
	path := filepath.Join(t.TempDir(), "gpuaasctl", "reports.db")
	const processes = 6
	var running []*exec.Cmd
	for i := range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envWriter+"="+path, fmt.Sprintf("%s_NODE=n%d", envWriter, i))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
	}
	for i, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
	}
	s, err := opened(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if l := list(t, s, Filter{}); len(l) != processes*each {
		t.Errorf("%d reports of %d", len(l), processes*each)
	}
	var word string
	if err := s.db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&word); err != nil || word != "ok" {
		t.Errorf("integrity: %s, %v", word, err)
	}
}
