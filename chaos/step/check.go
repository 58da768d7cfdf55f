package step

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Check runs a tool of the machine to verify that a step has its intended effect.
type Check struct {
	Name    string `json:"name"`
	Exec    Exec   `json:"exec"`
	Unit    string `json:"unit,omitempty"`    // run in this unit's mount namespace
	Has     string `json:"has,omitempty"`     // must be in the output, on either stream
	Lacks   string `json:"lacks,omitempty"`   // must not be
	Within  Millis `json:"within_ms"`         // time limit for repeating it until it passes
	Control bool   `json:"control,omitempty"` // must pass with and without the fault
}

// MainPID in a check's argv stands for the main process of its unit, whose pid is unknown until the unit was
// restarted: "/proc/{main-pid}/environ".
const MainPID = "{main-pid}"

// WithMainPID returns the program with MainPID replaced.
func (e Exec) WithMainPID(pid int) Exec {
	e.Argv = slices.Clone(e.Argv)
	for i, a := range e.Argv {
		e.Argv[i] = strings.ReplaceAll(a, MainPID, strconv.Itoa(pid))
	}
	return e
}

// Against returns why a program's exit code and output do not satisfy the check; "" if they do.
func (c Check) Against(code int, printed string) string {
	switch {
	case !c.Exec.Succeeded(code):
		return strings.TrimSuffix(fmt.Sprintf("%s: exit code %d: %s", c.Exec.Line(), code, brief(printed)), ": ")
	case !strings.Contains(printed, c.Has):
		return fmt.Sprintf("%s does not say %q but %q", c.Exec.Line(), c.Has, brief(printed))
	case c.Lacks != "" && strings.Contains(printed, c.Lacks):
		return fmt.Sprintf("%s says %q", c.Exec.Line(), c.Lacks)
	}
	return ""
}

// maxBrief bounds, in bytes, how much of a tool's output is quoted.
const maxBrief = 160

// private matches secrets in a tool's output, even if truncated: private keys, bearer tokens, values assigned to a
// name of a secret, and JWTs.
var private = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?is)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)` +
		`|\bbearer\s+\S+|\b[a-z0-9_-]*(?:token|secret|passw(?:or)?d|passphrase|api_?key|private_?key)["']?\s*[:=]\s*\S+|\beyJ[\w-]+\.[\w-]+\.[\w-]*`)
})

// brief returns the beginning of a tool's output, in one line, without secrets.
func brief(text string) string {
	text = strings.Join(strings.Fields(private().ReplaceAllLiteralString(text, Redacted)), " ")
	if len(text) > maxBrief {
		text = strings.ToValidUTF8(text[:maxBrief], "") + "..."
	}
	return text
}

func (c Check) validate() error {
	switch {
	case c.Name == "":
		return errors.New("name is missing")
	case c.Within <= 0:
		return errors.New("within_ms is missing")
	case c.Unit != "":
		if err := unitName(c.Unit); err != nil {
			return err
		}
	}
	return c.Exec.validate()
}
