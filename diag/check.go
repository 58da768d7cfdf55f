package diag

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Check is a check that a profile declares: one measurement, and a rule for its result. A plan has it, so that a
// recorded walk is judged without the profile.
type Check struct {
	Title string `json:"title"`
	From  string `json:"from"` // operator | node
	Owner string `json:"owner"`
	// Use is the row of the catalogue from which it comes; "": none.
	Use         string     `json:"use,omitempty"`
	Steps       []NextStep `json:"steps,omitempty"` // what to do about a failure
	ExplainedBy []HopID    `json:"explained_by,omitempty"`
	LimitMS     int64      `json:"limit_ms"` // of the measurement
	Request     Request    `json:"request"`
	// Protocol is how the output of a command is read, see CheckProtocols; "": the measurement is no command.
	Protocol string `json:"protocol,omitempty"`
	// Exit is the status of each exit code, for the protocol exit; "other" is any other code.
	Exit map[string]Status `json:"exit,omitempty"`
	Pass *CheckRule        `json:"pass,omitempty"` // what must hold, else it fails
	Warn *CheckRule        `json:"warn,omitempty"` // what should hold, else it warns
}

// CheckRule is a list of conditions, all of which must hold. Only those that are set are asked.
type CheckRule struct {
	Status  []int                 `json:"status,omitempty" yaml:"status,omitempty,flow"` // of HTTP
	Field   map[string]CheckMatch `json:"field,omitempty" yaml:"field,omitempty"`        // by path in a JSON answer, or name of a metric
	Text    *CheckMatch           `json:"text,omitempty" yaml:"text,omitempty"`          // the output of a command
	Failure []Failure             `json:"failure,omitempty" yaml:"failure,omitempty,flow"`
	State   []string              `json:"state,omitempty" yaml:"state,omitempty,flow"`   // of a unit or a container
	Health  []string              `json:"health,omitempty" yaml:"health,omitempty,flow"` // of a container
	Exists  *bool                 `json:"exists,omitempty" yaml:"exists,omitempty"`      // a file, a process
	Mode    string                `json:"mode,omitempty" yaml:"mode,omitempty"`          // of a file, octal
	SHA256  string                `json:"sha256,omitempty" yaml:"sha256,omitempty"`      // of a file

	AgeBelow     CheckSpan `json:"age_below,omitempty" yaml:"age_below,omitempty"`         // since a file was written
	AgeAbove     CheckSpan `json:"age_above,omitempty" yaml:"age_above,omitempty"`         // since a process started
	LatencyBelow CheckSpan `json:"latency_below,omitempty" yaml:"latency_below,omitempty"` // of the whole measurement
	SkewBelow    CheckSpan `json:"skew_below,omitempty" yaml:"skew_below,omitempty"`       // of a clock

	CertDaysLeft      *int `json:"cert_days_left,omitempty" yaml:"cert_days_left,omitempty"`
	UsedPercentBelow  *int `json:"used_percent_below,omitempty" yaml:"used_percent_below,omitempty"`
	InodePercentBelow *int `json:"inode_percent_below,omitempty" yaml:"inode_percent_below,omitempty"`
	CountAtLeast      *int `json:"count_at_least,omitempty" yaml:"count_at_least,omitempty"` // of processes
	CountAtMost       *int `json:"count_at_most,omitempty" yaml:"count_at_most,omitempty"`
	RestartsAtMost    *int `json:"restarts_at_most,omitempty" yaml:"restarts_at_most,omitempty"`
}

// CheckMatch is what a text must be. All that is set must hold.
type CheckMatch struct {
	Equals   *string  `json:"equals,omitempty" yaml:"equals,omitempty"`
	OneOf    []string `json:"one_of,omitempty" yaml:"one_of,omitempty,flow"`
	Contains string   `json:"contains,omitempty" yaml:"contains,omitempty"`
	Lacks    string   `json:"lacks,omitempty" yaml:"lacks,omitempty"`
	Matches  string   `json:"matches,omitempty" yaml:"matches,omitempty"` // a regular expression (RE2)
	AtLeast  *float64 `json:"at_least,omitempty" yaml:"at_least,omitempty" bounded:"signed"`
	AtMost   *float64 `json:"at_most,omitempty" yaml:"at_most,omitempty" bounded:"signed"`
}

// Against returns why a text does not match; "" if it does.
func (m *CheckMatch) Against(text string) string {
	number, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	expr, exprErr := regexp.Compile(m.Matches)
	shown := strconv.Quote(Shortened(text))
	switch {
	case m.Equals != nil && text != *m.Equals:
		return fmt.Sprintf("is %s, not %q", shown, *m.Equals)
	case len(m.OneOf) > 0 && !slices.Contains(m.OneOf, text):
		return fmt.Sprintf("is %s, none of %s", shown, strings.Join(m.OneOf, ", "))
	case !strings.Contains(text, m.Contains):
		return fmt.Sprintf("is %s, without %q", shown, m.Contains)
	case m.Lacks != "" && strings.Contains(text, m.Lacks):
		return fmt.Sprintf("is %s, with %q", shown, m.Lacks)
	case exprErr != nil || !expr.MatchString(text):
		return fmt.Sprintf("is %s, which %q does not match", shown, m.Matches)
	case (m.AtLeast != nil || m.AtMost != nil) && err != nil:
		return fmt.Sprintf("is %s, which is no number", shown)
	case m.AtLeast != nil && !(number >= *m.AtLeast):
		return fmt.Sprintf("is %s, below %v", text, *m.AtLeast)
	case m.AtMost != nil && !(number <= *m.AtMost):
		return fmt.Sprintf("is %s, above %v", text, *m.AtMost)
	}
	return ""
}

// shortText is how many bytes of a foreign text a sentence has.
const shortText = 160

// Shortened returns the beginning of a text, for a sentence.
func Shortened(text string) string {
	if len(text) <= shortText {
		return text
	}
	return strings.ToValidUTF8(text[:shortText], "") + "..."
}

// CheckSpan is a duration that is written as in a profile: 800ms, 26h.
type CheckSpan time.Duration

// MarshalText writes the span as time.Duration does.
func (s CheckSpan) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// UnmarshalText reads what time.ParseDuration reads, and is positive.
func (s *CheckSpan) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err == nil && d <= 0 {
		err = fmt.Errorf("want a time above 0, not %q", text)
	}
	*s = CheckSpan(d)
	return err
}

// Words is the span as people read it.
func (s CheckSpan) Words() string { return Millis(time.Duration(s).Milliseconds()).Words() }
