package main

import (
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/recording"
)

// drillFiles gives a script reports and logs of drills ($DRILLS), and a machine's journal of the run that was killed
// there (infra.events.ndjson): machine/journal, complete; torn.journal, where a crash hit the last entry.
func drillFiles(e *testscript.Env) error {
	folder, err := filepath.Abs(filepath.Join("..", "..", "chaos", "render", "testdata"))
	if err != nil {
		return err
	}
	e.Setenv("DRILLS", folder)
	if err := os.Mkdir(filepath.Join(e.WorkDir, "machine"), 0o700); err != nil {
		return err
	}
	b := recording.MachineJournal()
	if err := os.WriteFile(filepath.Join(e.WorkDir, "machine", "journal"), b, 0o600); err != nil {
		return err
	}
	_, end, _ := step.DecodeJournal(b)
	copy(b[end-step.BlockSize/2:], make([]byte, step.BlockSize/2))
	return os.WriteFile(filepath.Join(e.WorkDir, "torn.journal"), b, 0o600)
}
