package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/agent"
	"github.com/gpuaas/gpuaasctl/agent/recorder"
)

const bundleUsage = `usage: gpuaas-agent bundle apply [--env-file F] [--dir D] [--json] < bundle.json

Rewrites this node's endpoints, trust and recovery token together, as an audited bundle says. Everything is checked
before anything is changed, and what was there is kept. The agent is not restarted: do that next.
`

// runBundle applies a recovery bundle from stdin. It never prints the token.
func runBundle(_ context.Context, args []string, sys system) error {
	if len(args) == 0 || args[0] != "apply" {
		if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
			fmt.Fprint(sys.out, bundleUsage)
			return nil
		}
		return &usageError{errors.New("want: gpuaas-agent bundle apply")}
	}
	fs := flag.NewFlagSet("gpuaas-agent bundle apply", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(sys.err, bundleUsage); fs.PrintDefaults() }
	var cfg agent.Config
	fs.StringVar(&cfg.Dir, "dir", agent.DefaultDir, "folder of cert.pem, key.pem and ca-bundle.crt")
	fs.StringVar(&cfg.EnvFile, "env-file", "", "the agent's environment `FILE` (default agent.env in --dir)")
	fs.StringVar(&cfg.StateDir, "state-dir", "", "`FOLDER` of what survives a restart (default /var/lib/gpuaas)")
	recordDir := fs.String("record-dir", recorder.DefaultDir,
		"`FOLDER` of the diagnostic record, whose reserve makes room on a full disk")
	asJSON := fs.Bool("json", false, "as one JSON document")
	if err := parse(fs, args[1:], sys); err != nil {
		return err
	}
	cfg.Reserve = recorder.ReserveIn(*recordDir)
	done, err := agent.ApplyBundle(sys.in, cfg, time.Now())
	if errors.Is(err, agent.ErrBundle) {
		return &usageError{err}
	}
	if err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(sys.out).Encode(done)
	}
	for _, c := range done.Changes {
		fmt.Fprintln(sys.out, c)
	}
	if len(done.Changes) == 0 {
		fmt.Fprintln(sys.out, "nothing is otherwise than before")
	}
	_, err = fmt.Fprintf(sys.out,
		"undo copy: %s\ncorrelation id: %s\nnow restart the agent: systemctl restart gpuaas-node-agent\n", done.Undo,
		done.Correlation)
	return err
}
