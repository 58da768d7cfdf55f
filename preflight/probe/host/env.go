//go:build linux

package host

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// keyToken is the only variable that a running agent reads again: a rotated token needs no restart.
const keyToken = "GPUAAS_ENROLLMENT_TOKEN"

// env reads the names in Env from the environment with which the agent (or Unit) was started; the token comes from its
// file if that changed since. An unset name is absent. Failures: file_missing (no process and no file), not_permitted,
// file_unreadable.
func (p *Prober) env(ctx context.Context, req diag.Request, f *diag.Fact) {
	all := req.Env
	req.Env = slices.DeleteFunc(slices.Clone(all), ofFile)
	if len(req.Env) > 0 || len(all) == 0 {
		p.variables(ctx, req, f)
	} else {
		f.Env = &diag.EnvFacts{Source: SourceFile, Values: map[string]string{}}
	}
	p.fileSettings(slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !ofFile(name) }), f)
}

// fileSettings adds the settings that are values in files. A file without the key lacks the setting.
func (p *Prober) fileSettings(names []string, f *diag.Fact) {
	for _, name := range names {
		if f.Env == nil {
			return
		}
		v, err := p.Agent.setting(name, p.Commands)
		switch {
		case err == nil:
			f.Env.Values[name] = v
		case errors.As(err, new(*missingSetting)):
			f.Detail = measure.JoinDetail(f.Detail, err.Error())
		default:
			f.Env = nil
			measure.Fail(f, "env", measure.FileWord(err), err)
		}
	}
}

// variables is env for names of variables.
func (p *Prober) variables(ctx context.Context, req diag.Request, f *diag.Fact) {
	agent := p.Agent
	if req.Unit != "" && req.Unit != agent.Unit {
		agent = AgentView{Unit: req.Unit}
	}
	props, err := host.Unit{}, error(nil)
	if agent.Unit != "" {
		props, err = p.units.show(ctx, agent.Unit)
	}
	if err == nil && agent.Unit != "" {
		agent.PID = props.PID()
	}
	files := envFilesOf(props)
	if len(files) == 0 && agent.EnvFile != "" {
		files = []string{agent.EnvFile}
	}
	f.Env = &diag.EnvFacts{Source: SourceProcess}
	all, age := map[string]string(nil), ""
	if agent.PID > 0 {
		all, err = processEnv(agent.PID)
		age = processAge(agent.PID, files)
		if gone(err) || (err == nil && len(only(all, req.Env)) == 0) {
			agent.PID = 0 // it is just starting, or just ended
		}
	}
	if agent.PID == 0 {
		f.Env.Source = SourceEnvFile
		all, err = readEnvFiles(files)
		age = filesAge(files)
	}
	if err != nil {
		f.Env = nil
		word := measure.FileWord(err)
		switch {
		case errors.Is(err, fs.ErrPermission):
			word = diag.NotPermitted
		case errors.Is(err, errNoEnv) && !errors.Is(err, fs.ErrPermission):
			word = diag.FileMissing
		}
		measure.Fail(f, "env", word, err)
		return
	}
	splitSecrets(f.Env, only(all, req.Env), age)
	if agent.PID > 0 && slices.Contains(req.Env, keyToken) && changedSinceStart(agent.EnvFile, agent.PID) {
		if now, err := readEnvFiles([]string{agent.EnvFile}); err == nil {
			delete(f.Env.Secret, keyToken)
			if token, set := now[keyToken]; set {
				f.Env.Secret[keyToken] = secretWords(token, filesAge([]string{agent.EnvFile}))
			}
		}
	}
}

// changedSinceStart reports whether a file was written or replaced after the process was started. A file's time is
// wall-clock time, a process's is relative to boot, since the kernel keeps no wall-clock start time. If the wall clock
// was set in between, the result may be wrong, and the wrong one of two tokens is then reported.
func changedSinceStart(file string, pid int) bool {
	st, err := os.Stat(file)
	if err != nil {
		return false
	}
	stat, err := host.This.Stat(pid)
	if err != nil {
		return false
	}
	started, err := startedAt(stat)
	if err != nil {
		return false
	}
	changed := st.Sys().(*syscall.Stat_t).Ctim // always this type on Linux
	return time.Unix(changed.Unix()).After(started)
}

// clocksApart is the maximum time between reading two clocks: the kernel's resolution for the start of a process.
const clocksApart = 10 * time.Millisecond

// startedAt returns when a process was started, by the wall clock. If this process was delayed between reading the two
// clocks, it reads them again.
func startedAt(stat host.Stat) (t time.Time, err error) {
	for range 10 {
		now := time.Now()
		ran, err := host.This.Age(stat)
		if err != nil {
			return t, err
		}
		if t = now.Add(-ran); time.Since(now) < clocksApart {
			break
		}
	}
	return t, nil
}

// gone reports whether a process ended between being found and being read.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// splitSecrets splits the variables into those that may be shown and those of which only presence and age may be.
func splitSecrets(e *diag.EnvFacts, vars map[string]string, age string) {
	e.Values, e.Secret = map[string]string{}, map[string]string{}
	for name, value := range vars {
		switch {
		case !isSecretName(name):
			e.Values[name] = withoutUserinfo(value)
		default:
			e.Secret[name] = secretWords(value, age)
		}
	}
}

// secretWords is what is reported about a secret.
func secretWords(value, age string) string {
	if value == "" {
		return "empty"
	}
	text := "present"
	for _, more := range [...]string{age, until(value)} {
		if more != "" {
			text += ", " + more
		}
	}
	return text
}

// claimsPrefix begins a token with claims: prefix, base64url of the claims, dot, secret.
const claimsPrefix = "grt1."

// until returns when a token expires, "" without claims. The claims are not secret; the rest is not parsed.
func until(value string) string {
	claims, _, dotted := strings.Cut(strings.TrimPrefix(value, claimsPrefix), ".")
	text, err := base64.RawURLEncoding.DecodeString(claims)
	var c struct {
		ExpiresAt time.Time `json:"expires_at"`
	}
	if !strings.HasPrefix(value, claimsPrefix) || !dotted || err != nil ||
		bounded.Unmarshal(text, &c, bounded.Small()) != nil || c.ExpiresAt.IsZero() {
		return ""
	}
	return "until " + c.ExpiresAt.UTC().Format(time.RFC3339)
}

// processAge reports how old a running process's environment is: as old as the file that it came from, unless that was
// written after the start; else as old as the process.
func processAge(pid int, files []string) string {
	stat, err := host.This.Stat(pid)
	if err != nil {
		return ""
	}
	up := uptimeOf(stat)
	if up == nil {
		return ""
	}
	ran := time.Duration(*up) * time.Second
	if written, ok := newest(files); ok {
		if since := time.Since(written); since >= ran {
			return "written " + ago(since)
		}
		return "in use since " + ago(ran) + ", file written since"
	}
	return "in use since " + ago(ran)
}

func filesAge(files []string) string {
	if written, ok := newest(files); ok {
		return "written " + ago(time.Since(written))
	}
	return ""
}

func newest(files []string) (t time.Time, ok bool) {
	for _, file := range files {
		if st, err := os.Stat(file); err == nil && st.ModTime().After(t) {
			t, ok = st.ModTime(), true
		}
	}
	return t, ok
}

// ago formats a duration in whole seconds, as "1h2m3s ago".
func ago(d time.Duration) string { return max(0, d).Truncate(time.Second).String() + " ago" }
