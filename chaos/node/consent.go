package node

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// Consent is the permission of a machine's owner to break it in drills. It is a file on the machine, so that no
// operator can grant it in place of the owner:
//
//	node = compute-node-01
//	until = 2026-12-31T23:59:59Z
//	disposable = yes
type Consent struct {
	Node  string
	Until time.Time
	// the machine may be lost; without it, a drill must not make a change that survives a reboot or stops the
	// operators' access
	Disposable bool
}

// maxSkew bounds the difference between the runner's clock and the machine's: with more, an expiry could not be
// judged.
const maxSkew = 2 * time.Minute

// ParseConsent parses a consent strictly: an unknown line is an error, since it may be a restriction.
func ParseConsent(text string) (Consent, error) {
	var c Consent
	seen := map[string]bool{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || value == "" || seen[key] {
			return c, fmt.Errorf("line %d: want key = value, each key once", n)
		}
		seen[key] = true
		switch key {
		case "node":
			c.Node = value
		case "until":
			until, err := time.Parse(time.RFC3339, value)
			if err != nil {
				return c, fmt.Errorf("line %d: until: %q is not a time like 2026-12-31T23:59:59Z", n, value)
			}
			c.Until = until
		case "disposable":
			if value != "yes" && value != "no" {
				return c, fmt.Errorf("line %d: disposable: want yes or no", n)
			}
			c.Disposable = value == "yes"
		default:
			return c, fmt.Errorf("line %d: no key %q", n, key)
		}
	}
	if err := lines.Err(); err != nil {
		return c, err
	}
	if !seen["node"] || !seen["until"] {
		return c, errors.New("node and until must be there")
	}
	return c, nil
}

// readConsent reads the file, and trusts it only if no user except root could have written it.
func readConsent(path string) (Consent, *step.Refusal) {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Consent{}, step.Refuse(step.RefusedConsent,
			"%s is not there: the owner of this machine has not agreed to drills", path)
	}
	if err != nil {
		return Consent{}, step.Refuse(step.RefusedConsent, "%v", err)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || !fi.Mode().IsRegular() || st.Uid != 0 || fi.Mode().Perm()&0o022 != 0 {
		return Consent{}, step.Refuse(step.RefusedConsent, "%s must be a file that only root can write", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return Consent{}, step.Refuse(step.RefusedConsent, "%v", err)
	}
	c, err := ParseConsent(string(b))
	if err != nil {
		return Consent{}, step.Refuse(step.RefusedConsent, "%s: %v", path, err)
	}
	return c, nil
}

// Permits returns why the consent does not cover the drill, on a machine whose clock shows now; nil if it does.
// The drill must end before the consent expires. The planner calls it, and so does the machine, which does not
// trust a plan.
func (c Consent) Permits(d step.Drill, now time.Time) *step.Refusal {
	skew := now.Sub(d.At)
	switch {
	case skew.Abs() > maxSkew:
		return step.Refuse(step.RefusedClock,
			"this machine's clock is %v from the runner's: it is unknown whether the consent is still valid",
			skew.Round(time.Second))
	case c.Node != d.Node:
		return step.Refuse(step.RefusedNode, "the consent on this machine is %s's, and the drill is for %s", c.Node, d.Node)
	case now.Add(d.TTL.Duration()).After(c.Until):
		return step.Refuse(step.RefusedExpired, "the consent ends %s, and the drill would not be over by then",
			c.Until.UTC().Format(time.RFC3339))
	case d.Disposable && !c.Disposable: // Validate rejects a drill with such a step that does not set Disposable
		return step.Refuse(step.RefusedDisposable,
			"the drill is for machines that may be lost, and the consent does not say disposable = yes")
	}
	return nil
}
