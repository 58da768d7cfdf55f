//go:build linux

package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
)

// DiscoverAgent finds unit's main process and its environment. If no process runs, or its environment cannot be read,
// it uses what systemd would start it with: the unit's environment files in order, else envFile.
func DiscoverAgent(ctx context.Context, unit, envFile string) AgentView {
	a := AgentView{Unit: unit, EnvFile: envFile}
	var files []string
	if unit != "" {
		if props, err := showUnit(ctx, unit); err == nil {
			a.PID, files = props.PID(), envFilesOf(props)
		}
	}
	a.ReadEnv(files...)
	a.files = files
	return a
}

// ReadEnv reads the environment of the running process. If no process runs, or its environment cannot be read, it reads
// files in order, else EnvFile.
func (a *AgentView) ReadEnv(files ...string) {
	if a.readProcess(); a.Source == "" {
		a.readFiles(files)
	}
}

// readFiles reads the environment from files, else from EnvFile.
func (a *AgentView) readFiles(files []string) {
	if len(files) == 0 && a.EnvFile != "" {
		files = []string{a.EnvFile}
	}
	all, err := readEnvFiles(files)
	if err == nil {
		a.Source, a.Env = SourceEnvFile, only(all, EnvNames[:])
	}
	a.Denied = errors.Is(err, fs.ErrPermission)
}

// readProcess reads the environment of the running process. Source stays empty if it cannot be read, or has none of the
// names: a process that systemd is just starting has systemd's environment, and one that just ended has none.
func (a *AgentView) readProcess() {
	if a.PID == 0 {
		return
	}
	all, err := processEnv(a.PID)
	if err != nil {
		return
	}
	if env := only(all, EnvNames[:]); len(env) > 0 {
		a.Source, a.Env = SourceProcess, env
	}
}

// variable returns a variable of the running process's environment, else of the unit's files, else of EnvFile; "" if it
// is not set.
func (a *AgentView) variable(name string) (string, error) {
	if a.PID > 0 {
		all, err := processEnv(a.PID)
		if v := all[name]; v != "" || (err != nil && !gone(err)) {
			return v, err
		}
	}
	files := a.files
	if len(files) == 0 && a.EnvFile != "" {
		files = []string{a.EnvFile}
	}
	if len(files) == 0 {
		return "", nil
	}
	all, err := readEnvFiles(files)
	return all[name], err
}

// processEnv returns the environment with which a process was started, including secrets: callers select names.
func processEnv(pid int) (map[string]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for entry := range bytes.SplitSeq(b, []byte{0}) {
		if name, value, ok := strings.Cut(string(entry), "="); ok {
			all[name] = value
		}
	}
	return all, nil
}

// readEnvFiles merges environment files; later ones override. It ignores missing files if at least one exists.
func readEnvFiles(files []string) (map[string]string, error) {
	all := map[string]string{}
	read := 0
	var errs []error
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		read++
		maps.Copy(all, parseEnvFile(string(b)))
	}
	if read == 0 {
		return nil, errors.Join(append(errs, errNoEnv)...)
	}
	return all, nil
}

// errNoEnv reports that there is no source for the environment.
var errNoEnv = errors.New("no environment file")

func only(all map[string]string, names []string) map[string]string {
	some := map[string]string{}
	for _, name := range names {
		if v, ok := all[name]; ok {
			some[name] = v
		}
	}
	return some
}
