package main

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight"
	"github.com/gpuaas/gpuaasctl/profile"
)

// job is one walk, ready to go: everything that could be wrong with the command line has been checked.
type job struct {
	env     preflight.Env
	plan    diag.Plan
	libexec string
	runID   string
	began   time.Time

	profileArg string // as an operator chooses this profile: its name, or the path of its file
}

// prepare turns flags, environment and profile into a job. It reads local files and touches no network.
func (a *app) prepare(cmd *cobra.Command, o *preflightOptions) (*job, error) {
	p, _, err := o.profile.load(a, cmd)
	if err != nil {
		return nil, err
	}
	if err := checkSubject(o, slices.Sorted(maps.Keys(p.Nodes))); err != nil {
		return nil, err
	}
	only, errOnly := preflight.CheckHops("only", o.only)
	skip, errSkip := preflight.CheckHops("skip", o.skip)
	if err := errors.Join(errOnly, errSkip, checkIDs(o), checkDeadline(o.deadline)); err != nil {
		return nil, &usageError{err: err, command: cmd.CommandPath()}
	}
	j := &job{libexec: o.libexec, runID: newID("run"), began: time.Now(), profileArg: cmp.Or(o.profile.name, a.env(profile.EnvProfile))}
	if err := j.secrets(p); err != nil {
		return nil, &usageError{err: err}
	}
	p = p.WithDefaults()
	j.env.Profile = p
	j.env.Subject = preflight.NewSubject(p, o.nodeID, o.nodeHost, o.allocationID, o.sessionID)
	j.env.Subject.CorrelationID = o.correlationID // the walk itself goes out under an id of its own
	j.env.CorrelationID = newID("preflight")
	j.plan = preflight.NewPlan(p, j.env.Subject, preflight.Options{
		Only: only, Skip: skip, Session: o.session,
		Token: !j.env.Token.IsZero(), SSH: j.env.Subject.NodeHost != "",
	})
	return j, nil
}

// secrets reads the files that hold secrets, and the nodes' trust bundle.
func (j *job) secrets(p profile.Profile) error {
	var errs []error
	read := func(path, key string) diag.Secret {
		if path == "" {
			return diag.Secret{}
		}
		s, err := profile.ReadSecret(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
		return s
	}
	j.env.Token = read(p.Auth.TokenFile, "auth.token_file")
	j.env.Cookie = read(p.Auth.EdgeCookieFile, "auth.edge_cookie_file")
	if path := p.Trust.NodeCA; path != "" {
		pem, err := os.ReadFile(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("trust.node_ca: %w", err))
		}
		j.env.NodeCA = string(pem)
	}
	if path := p.Trust.OperatorCA; path != "" {
		if _, err := os.Stat(path); err != nil {
			errs = append(errs, fmt.Errorf("trust.operator_ca: %w", err))
		}
	}
	return errors.Join(errs...)
}

// report makes the report of a walk that saw these facts, and judges it.
func (j *job) report(facts []diag.Fact, vantages []diag.VantageInfo, ended diag.EndedBy) *diag.Report {
	now := time.Now()
	if facts == nil {
		facts = []diag.Fact{}
	}
	if vantages == nil {
		vantages = []diag.VantageInfo{}
	}
	r := &diag.Report{
		APIVersion: diag.APIVersion, Kind: diag.KindPreflight,
		Run: diag.Run{
			ID: j.runID, CorrelationID: j.env.CorrelationID,
			StartedAt: diag.At(j.began), EndedAt: diag.At(now), DurationMS: diag.Measured(now.Sub(j.began)),
			EndedBy: ended, ToolVersion: toolVersion(),
		},
		Subject: j.env.Subject, Plan: j.plan, Vantages: vantages, Facts: facts,
		Redaction: redaction(facts),
	}
	preflight.Judge(r)
	return r
}

// redaction counts what is not in the report because it is secret.
func redaction(facts []diag.Fact) diag.Redaction {
	r := diag.Redaction{
		Rules:  []string{"secrets are written as " + diag.Redacted, "answers are kept as named fields only", "URLs in errors lose their query"},
		Counts: map[string]int{},
	}
	count := func(name string, s diag.Secret) {
		if !s.IsZero() {
			r.Counts[name]++
		}
	}
	for i := range facts {
		count("token", facts[i].Request.Token)
		count("cookie", facts[i].Request.Cookie)
		count("query", facts[i].Request.Query)
		if h := facts[i].HTTP; h != nil {
			count("kept", h.Kept)
		}
	}
	return r
}

// newID is a fresh id that sorts by time: what, second, and 4 random bytes.
func newID(what string) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return what + "-" + time.Now().UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(b[:])
}

// checkIDs refuses ids that cannot be ones: they go into URLs, headers and commands to paste.
func checkIDs(o *preflightOptions) error {
	var errs []error
	for _, id := range [...]struct{ flag, value string }{
		{"node-id", o.nodeID}, {"node-host", o.nodeHost}, {"allocation-id", o.allocationID},
		{"session-id", o.sessionID}, {"correlation-id", o.correlationID},
	} {
		if strings.ContainsFunc(id.value, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("'\"`$\\;|&<>", r) }) ||
			strings.HasPrefix(id.value, "-") || len(id.value) > 255 {
			errs = append(errs, fmt.Errorf("--%s: %q cannot be one", id.flag, id.value))
		}
	}
	return errors.Join(errs...)
}

// Bounds of --deadline.
const (
	minDeadline = 100 * time.Millisecond
	maxDeadline = time.Hour
)

func checkDeadline(d time.Duration) error {
	if d < minDeadline || d > maxDeadline {
		return fmt.Errorf("--deadline: want between %s and %s, not %s", minDeadline, maxDeadline, d)
	}
	return nil
}
