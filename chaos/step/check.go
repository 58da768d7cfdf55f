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

// Check looks at the machine with a tool of the machine, to verify that a step has the effect that it was made for.
type Check struct {
	Name    string `json:"name"`
	Exec    Exec   `json:"exec"`
	Unit    string `json:"unit,omitempty"`    // look from this unit's mount namespace
	Has     string `json:"has,omitempty"`     // must be in what it prints, on either stream
	Lacks   string `json:"lacks,omitempty"`   // must not be
	Within  Millis `json:"within_ms"`         // tried until it holds, for so long
	Control bool   `json:"control,omitempty"` // holds without the fault as well: something that must still work
}

// MainPID is in a check's argv the main process of its unit, whose number is not known before it was restarted:
// "/proc/{main-pid}/environ".
const MainPID = "{main-pid}"

// Of is the program with MainPID filled in.
func (e Exec) Of(pid int) Exec {
	e.Argv = slices.Clone(e.Argv)
	for i, a := range e.Argv {
		e.Argv[i] = strings.ReplaceAll(a, MainPID, strconv.Itoa(pid))
	}
	return e
}

// Against is what a check has against its program's exit code and what it printed on both streams; "" when it holds.
func (c Check) Against(code int, printed string) string {
	switch {
	case !c.Exec.Fine(code):
		return strings.TrimSuffix(fmt.Sprintf("%s: exit code %d: %s", c.Exec.Line(), code, brief(printed)), ": ")
	case c.Has != "" && !strings.Contains(printed, c.Has):
		return fmt.Sprintf("%s does not say %q but %q", c.Exec.Line(), c.Has, brief(printed))
	case c.Lacks != "" && strings.Contains(printed, c.Lacks):
		return fmt.Sprintf("%s says %q", c.Exec.Line(), c.Lacks)
	}
	return ""
}

// maxBrief is what is quoted of a tool, in bytes.
const maxBrief = 160

// private is what must not be shown in what a tool printed, also where its end was not kept: keys, what follows a
// bearer's word, what is assigned to a name that names a secret, and tokens in three parts.
var private = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?is)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)` +
		`|\bbearer\s+\S+|\b[a-z0-9_-]*(?:token|secret|passw(?:or)?d|passphrase|api_?key|private_?key)["']?\s*[:=]\s*\S+|\beyJ[\w-]+\.[\w-]+\.[\w-]*`)
})

// brief is the beginning of what a tool printed, in one line, without what is private.
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
