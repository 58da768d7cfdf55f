//go:build linux

package inprocess

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
)

// What the vantage sends to start the node's helper is a script with these arguments, behind `sh -c SCRIPT sh`.
const (
	argScript    = 2
	argInstalled = 5
	argUnit      = 6
	argEnvFile   = 7
	argFirst     = 8  // the first requests
	argSums      = 10 // name and digest of each of our helpers
	startsHelper = "GPUAASCTL-SENTINEL start how="
)

// helperHere runs the node's helper in this process, with the requests and answers of the login's channel: three
// quarters of a walk's processor time would be the processes of that start. It leaves every other command to the shell,
// and the start of any program but the agent's own. The script itself is tested in preflight/vantage, and by the worlds
// with options.process.
func helperHere(command string, in io.Reader, out io.Writer) bool {
	argv := quoted(command)
	if len(argv) <= argSums+1 || !strings.Contains(argv[argScript], startsHelper) {
		return false
	}
	ours, err := agentProgram()
	if at, errAt := filepath.EvalSymlinks(argv[argInstalled]); err != nil || errAt != nil || at != ours {
		return false
	}
	fmt.Fprintf(out, "%sinstalled path=%s\n", startsHelper, argv[argInstalled])
	if first := argv[argFirst]; first != "" {
		in = io.MultiReader(strings.NewReader(first+"\n"), in)
	}
	code := 0
	if err := probe.Serve(context.Background(), in, out, probe.Config{Version: sshtest.Version, Unit: argv[argUnit],
		EnvFile: argv[argEnvFile]}); err != nil {
		code = 1
	}
	fmt.Fprintf(out, "GPUAASCTL-SENTINEL exit code=%d uname=here\n", code)
	return true
}

// quoted returns the words of a line in which every word is in single quotes, as vantage.Quote writes it; nil for
// another line.
func quoted(line string) (argv []string) {
	for rest := line; rest != ""; rest = strings.TrimPrefix(rest, " ") {
		var word strings.Builder
		for {
			opened, ok := strings.CutPrefix(rest, "'")
			text, after, closed := strings.Cut(opened, "'")
			if !ok || !closed {
				return nil
			}
			word.WriteString(text)
			if rest, ok = strings.CutPrefix(after, `"'"`); ok {
				word.WriteByte('\'')
			} else if rest, ok = strings.CutPrefix(after, `"\\"`); ok {
				word.WriteByte('\\')
			} else {
				break
			}
		}
		argv = append(argv, word.String())
	}
	return argv
}
