package render

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// JUnitSuites is the root of a JUnit file in the dialect of Jenkins and Surefire, whose schema has no count of skipped
// cases at this level.
type JUnitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []JUnitSuite `xml:"testsuite"`
}

// JUnitSuite is one node.
type JUnitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Timestamp  string          `xml:"timestamp,attr,omitempty"`
	Hostname   string          `xml:"hostname,attr,omitempty"`
	Properties []JUnitProperty `xml:"properties>property"`
	Cases      []JUnitCase     `xml:"testcase"`
	Out        string          `xml:"system-out,omitempty"`
}

// JUnitProperty is one property of a suite.
type JUnitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// JUnitProperties returns the properties that have a value.
func JUnitProperties(all []JUnitProperty) []JUnitProperty {
	return slices.DeleteFunc(all, func(p JUnitProperty) bool { return p.Value == "" })
}

// JUnitCase is one hop. A fail is a failure, an inconclusive hop an error. A hop that was skipped or not reached is
// skipped, and so is a symptom of another hop's failure, so that one cause is one failure. A warning is a failure if
// the gate stops at warnings. One more case, "verdict" or "baseline", reports what no hop does, so a file without
// failures and errors is always a walk that passes the gate.
type JUnitCase struct {
	Name      string        `xml:"name,attr"`
	ClassName string        `xml:"classname,attr"`
	Time      string        `xml:"time,attr"`
	Failure   *JUnitProblem `xml:"failure,omitempty"`
	Error     *JUnitProblem `xml:"error,omitempty"`
	Skipped   *JUnitProblem `xml:"skipped,omitempty"`
	Out       string        `xml:"system-out,omitempty"`
}

// JUnitProblem explains why a case is not a pass.
type JUnitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",cdata"`
}

func writeJUnit(w io.Writer, r *diag.Report, failOn string) error { return junit(r, failOn).Encode(w) }

// Encode writes the file.
func (s JUnitSuites) Encode(w io.Writer) error {
	b, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode junit: %w", err)
	}
	_, err = w.Write(append(append([]byte(xml.Header), inertXML(b)...), '\n'))
	return err
}

// inertXML divides what a CI system would execute in the file's text, see clean.Muted, and keeps the text's value: the
// second of two number signs and the first colon of a line become references; in CDATA a new section begins there.
func inertXML(b []byte) []byte {
	const begin, end = "<![CDATA[", "]]>"
	colons := regexp.MustCompile(`(?m)^([\s\p{Z}]*)::`)
	var out []byte
	for inside := false; len(b) > 0; inside = !inside {
		mark, hash, colon := begin, "#&#35;", "${1}&#58;:"
		if inside {
			mark, hash, colon = end, "#"+end+begin+"#", "${1}:"+end+begin+":"
		}
		part := b
		if i := bytes.Index(b, []byte(mark)); i >= 0 {
			part = b[:i+len(mark)]
		}
		b = b[len(part):]
		for range 2 { // of three in a row the last two are left
			part = bytes.ReplaceAll(part, []byte("##"), []byte(hash))
		}
		out = append(out, colons.ReplaceAll(part, []byte(colon))...)
	}
	return out
}

func junit(r *diag.Report, failOn string) JUnitSuites {
	s := JUnitSuite{
		Name: page.Clean(subject(&r.Subject)), Time: secondsOf(r.Run.DurationMS), Hostname: page.Clean(r.Subject.NodeHost),
		Timestamp: r.Run.StartedAt.UTC().Format("2006-01-02T15:04:05"), // the dialect has neither time zones nor fractions
		Properties: JUnitProperties([]JUnitProperty{
			{"run_id", page.Clean(r.Run.ID)},
			{"correlation_id", page.Clean(r.Run.CorrelationID)},
			{"outcome", page.Clean(string(r.Verdict.Outcome))},
			{"ended_by", page.Clean(string(r.Run.EndedBy))},
			{"insecure", r.Plan.Insecure()},
			{"owner", page.Clean(r.Verdict.Owner)},
			{"user_state", page.Clean(string(r.Verdict.UserState))},
		}),
		Out: junitDiff(r),
	}
	if r.Diff != nil {
		s.Properties = append(s.Properties, JUnitProperty{"regressions", strconv.Itoa(r.Diff.Regressions())})
	}
	parent := parents(r)
	for i := range r.Hops {
		s.add(junitCase(r, &r.Hops[i], parent, failOn))
	}
	if c := gateCase(r, failOn); c != nil && s.Failures+s.Errors == 0 {
		s.add(*c)
	}
	return JUnitSuites{
		Name: "gpuaasctl preflight", Tests: s.Tests, Failures: s.Failures, Errors: s.Errors, Time: s.Time,
		Suites: []JUnitSuite{s},
	}
}

func (s *JUnitSuite) add(c JUnitCase) {
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
	s.Cases = append(s.Cases, c)
}

// gateCase explains why a gate fails although no hop failed; nil if the gate passes. Without it, a walk that decided
// nothing would look green.
func gateCase(r *diag.Report, failOn string) *JUnitCase {
	c := &JUnitCase{Name: "verdict", ClassName: "preflight", Time: "0"}
	problem := &JUnitProblem{Type: page.Clean(string(r.Verdict.Outcome))}
	good := r.Verdict.Outcome == diag.OutcomePass || r.Verdict.Outcome == diag.OutcomeWarn
	switch {
	case !good || r.Run.EndedBy == diag.EndedInterrupted || r.Run.EndedBy == diag.EndedError:
		c.Error, problem.Message = problem, page.Clean(undecided(r))
	case failOn == FailOnWarn && r.Verdict.Outcome == diag.OutcomeWarn:
		c.Failure, problem.Message = problem, "warnings"
	case failOn != FailOnRegression:
		return nil
	case r.Diff == nil || !r.Diff.Comparable:
		c.Name, c.Error, problem.Message = "baseline", problem, "nothing to compare with"
	case r.Diff.Regressions() > 0:
		c.Name, c.Failure, problem.Message, problem.Text = "baseline", problem, page.Clean(diffHead(r.Diff)),
			"\n"+junitDiff(r)+"\n"
	default:
		return nil
	}
	return c
}

func junitCase(r *diag.Report, h *diag.HopResult, parent map[diag.HopID]diag.HopID, failOn string) JUnitCase {
	c := JUnitCase{Name: page.Clean(string(h.ID)), ClassName: "preflight." + page.Clean(string(h.Layer)),
		Time: secondsOf(h.DurationMS)}
	message := page.Clean(findingText(&h.Finding))
	by, symptom := parent[h.ID]
	switch {
	case h.Status == diag.StatusFail && symptom && !blamed(&r.Verdict, h.ID):
		c.Skipped = &JUnitProblem{
			Message: "follows from " + page.Clean(string(by)), Type: page.Clean(string(h.Signal)),
			Text: "\n" + junitText(r, h) + "\n",
		}
	case h.Status == diag.StatusFail, h.Status == diag.StatusWarn && failOn == FailOnWarn:
		c.Failure = &JUnitProblem{Message: message, Type: page.Clean(string(h.Signal)), Text: "\n" + junitText(r, h) + "\n"}
	case h.Status == diag.StatusInconclusive:
		c.Error = &JUnitProblem{Message: message, Type: page.Clean(string(h.Status))}
		v := &r.Verdict
		if (v.Because != "" && v.Because == h.Because) || (v.Blame != nil && v.Blame.Hop == h.ID) {
			c.Error.Text = "\n" + junitText(r, h) + "\n"
		}
	case h.Status == diag.StatusSkipped, h.Status == diag.StatusNotReached:
		c.Skipped = &JUnitProblem{Message: page.Clean(h.Status.Words()) + ": " + message}
	default:
		c.Out = message
	}
	return c
}

// junitText is what a CI page shows for a failure: verdict and next steps for the blamed hop, a reference to it for its
// symptoms.
func junitText(r *diag.Report, h *diag.HopResult) string {
	lines := []string{page.Clean(findingText(&h.Finding))}
	add := func(label, v string) {
		if v != "" {
			lines = append(lines, label+": "+page.Clean(v))
		}
	}
	add("failure", string(h.Failure))
	v := &r.Verdict
	if (v.Blame != nil && v.Blame.Hop == h.ID) || (v.Because != "" && v.Because == h.Because) {
		add("confidence", string(v.Confidence))
		if v.Proof != nil {
			add("proof", v.Proof.Text)
		}
		add("unproven", v.Unproven)
		if v.Observation != nil {
			add("observed", v.Observation.Text)
		}
		add("owner", v.Owner)
		for i, s := range v.Recovery {
			add("next "+strconv.Itoa(i+1), s)
		}
		add("prove the repair", v.RepairProof)
	}
	for i := range v.OtherFindings {
		if b := &v.OtherFindings[i]; b.Hop == h.ID {
			add("confidence", string(b.Confidence))
			if b.Observation != nil {
				add("observed", b.Observation.Text)
			}
			add("owner", b.Owner)
		}
	}
	return strings.Join(lines, "\n")
}

// secondsOf formats a duration as JUnit does: seconds with milliseconds. A negative duration, from a report of another
// tool, is 0.
func secondsOf(d diag.Millis) string { return strconv.FormatFloat(float64(max(d, 0))/1000, 'f', 3, 64) }
