package main

import (
	"flag"
	"log/slog"
	"os"
	"strings"

	"github.com/gpuaas/gpuaasctl/agent"
	"github.com/gpuaas/gpuaasctl/agent/recorder"
)

// recordFlags are the flags for the folders of the diagnostic record.
type recordFlags struct{ dir, mirror string }

func (f *recordFlags) declare(fs *flag.FlagSet) {
	fs.StringVar(&f.dir, "record-dir", recorder.DefaultDir, "folder of the diagnostic record")
	fs.StringVar(&f.mirror, "record-mirror", recorder.DefaultMirror, "folder of its copy in memory")
}

// keep gives cfg a recorder; close it after the agent has ended.
func (f *recordFlags) keep(cfg *agent.Config, log *slog.Logger) (closeRecord func()) {
	r := recorder.Open(recorder.Config{
		Dir: f.dir, Mirror: f.mirror, Log: log, NodeID: cfg.NodeID, Agent: cfg.Version,
		Boot: word("/proc/sys/kernel/random/boot_id"), Instance: word("/etc/machine-id"),
	})
	cfg.Recorder = agent.NewHostRecord(r, log)
	return r.Close
}

// word returns the trimmed text of a small file, "" if it cannot be read.
func word(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
