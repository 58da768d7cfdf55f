package classify

import (
	"github.com/gpuaas/gpuaasctl/diag"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// stateWords are words about the current state of something. A wording with such a word must name the facts that it
// needs.
var stateWords = regexp.MustCompile(
	`(?i)\b(well|fine|healthy|alive|living|dead|up|down|runs?|running|works?|working|affected|stale|green|current|` +
		`serving|served|reachable|connected|disconnected|not heard|reach each other|nothing is wrong|nothing to do)\b`)

// harmless are uses of such words that do not claim a state.
var harmless = []string{"clean-up", "a current recovery token", "rate-limits the node", "set-up", "a stale observation"}

// tables returns all texts of reasons and of the matrix, by their place.
func tables() map[string]diag.Text {
	out := map[string]diag.Text{}
	for _, r := range diag.Reasons() {
		out[string(r.Code)+" title"], out[string(r.Code)+" user"], out[string(r.Code)+" next"] = r.Title, r.UserText,
			r.NextAction
	}
	for _, m := range diag.Scenarios() {
		out[m.ID+" recovery"] = m.Recovery
	}
	return out
}

// TestStateWordsNameTheirFacts: a wording without needs has no state word, and only the last wording of a clause lacks
// needs.
func TestStateWordsNameTheirFacts(t *testing.T) {
	for where, text := range tables() {
		for _, c := range text {
			for i, w := range c {
				plain := w.Says
				for _, h := range harmless {
					plain = strings.ReplaceAll(plain, h, "")
				}
				if word := stateWords.FindString(plain); len(w.Needs) == 0 && word != "" {
					t.Errorf("%s: %q says %q and needs nothing", where, w.Says, word)
				}
				if len(w.Needs) == 0 && i < len(c)-1 {
					t.Errorf("%s: nothing after %q is ever said", where, w.Says)
				}
				for _, n := range w.Needs {
					if !knownFact(n.Of) || (n.Is != diag.MarkPass && n.Is != diag.MarkFail) {
						t.Errorf("%s: %q needs %v", where, w.Says, n)
					}
				}
			}
		}
	}
}

func knownFact(of string) bool {
	return slices.Contains(diag.Points[:], diag.PointID(of)) || slices.Contains(diag.HopIDs(), diag.HopID(of)) ||
		of == diag.FactContact ||
		of == diag.FactToken ||
		of == diag.FactHeartbeatAnswer
}

// evidenceOf returns evidence that names code, in which exactly the facts of the mask are measured: by the platform's
// checklist, by hops that support no reason, by its last contact and by the token.
func evidenceOf(code diag.ReasonCode, mask diag.Seen) Evidence {
	e := Evidence{Node: &NodeEvidence{Reason: code, StaleAfter: time.Minute}}
	for _, p := range diag.Points {
		if m := mask[string(p)]; m != "" {
			e.Node.Checklist = append(e.Node.Checklist, diag.CheckPoint{ID: p, Status: m, Text: "masked"})
		}
	}
	for _, h := range diag.HopIDs() {
		switch mask[string(h)] {
		case diag.MarkPass:
			e.Probes = append(e.Probes, Probed{Hop: h, Status: diag.StatusPass})
		case diag.MarkFail:
			e.Probes = append(e.Probes, Probed{Hop: h, Status: diag.StatusFail, Reason: diag.ReasonNone, Text: "masked"})
		}
	}
	ages := map[diag.Mark]time.Duration{diag.MarkPass: time.Second, diag.MarkFail: time.Hour}
	if age, ok := ages[mask[diag.FactContact]]; ok {
		e.Node.ContactAge = &age
	}
	e.Token = map[diag.Mark]TokenState{diag.MarkPass: TokenCurrent, diag.MarkFail: TokenGone}[mask[diag.FactToken]]
	return e
}

// factsOf returns the facts that texts of one reason may need, with the five points and the workload's hops.
func factsOf(code diag.ReasonCode) []string {
	out := []string{string(diag.HopAppRuntimeLiveness), string(diag.HopAppUserRoute)}
	for _, p := range diag.Points {
		out = append(out, string(p))
	}
	row, _ := diag.LookupReason(code)
	texts := []diag.Text{row.Title, row.UserText, row.NextAction}
	for _, m := range diag.Scenarios() {
		if slices.Contains(m.Reasons, code) {
			texts = append(texts, m.Recovery)
		}
	}
	for _, c := range slices.Concat(texts...) {
		for _, w := range c {
			for _, n := range w.Needs {
				out = append(out, n.Of)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// masks calls each for all combinations of the facts, each passing, failing or not measured.
func masks(facts []string, each func(diag.Seen)) {
	n := 1
	for range facts {
		n *= 3
	}
	marks := []diag.Mark{"", diag.MarkPass, diag.MarkFail}
	for ; n > 0; n-- {
		mask := diag.Seen{}
		for i, k := 0, n-1; i < len(facts); i, k = i+1, k/3 {
			if m := marks[k%3]; m != "" {
				mask[facts[i]] = m
			}
		}
		each(mask)
	}
}

// TestNothingIsSaidThatWasNotMeasured: for all reasons and all masks of the facts that their texts may need, no wording
// appears in a classification if its needs were not measured.
func TestNothingIsSaidThatWasNotMeasured(t *testing.T) {
	wordings := map[string][][]diag.Need{} // one wording may occur in several places
	for _, text := range tables() {
		for _, c := range text {
			for _, w := range c {
				wordings[w.Says] = append(wordings[w.Says], w.Needs)
			}
		}
	}
	for i, r := range diag.Reasons() {
		if testing.Short() && i%5 != 0 { // the race detector's run takes every fifth: the code is the same
			continue
		}
		facts := factsOf(r.Code)
		masks(facts, func(mask diag.Seen) {
			e := evidenceOf(r.Code, mask)
			c := Classify(e)
			seen := viewOf(&e).seen()
			for _, clause := range strings.Split(c.Title+"; "+c.UserText+"; "+c.Next, "; ") {
				if needs, ok := wordings[clause]; ok && !slices.ContainsFunc(needs, func(all []diag.Need) bool {
					return !slices.ContainsFunc(all, func(n diag.Need) bool { return seen[n.Of] != n.Is })
				}) {
					t.Fatalf("%s with %v: says %q, which needs %v", r.Code, mask, clause, needs)
				}
			}
			for of := range seen { // facts outside the mask must not be measured in any other way
				derived := slices.Contains(
					[]string{diag.FactContact, diag.FactNode, diag.FactWorkload, diag.FactRoute, string(diag.PointHeartbeat)},
					of,
				)
				if mask[of] == "" && !derived {
					t.Fatalf("%s with %v: %s counts as measured", r.Code, mask, of)
				}
			}
		})
	}
}

// TestWordsOfTheIssue: texts that a previous version showed for a node about which nothing was known.
func TestWordsOfTheIssue(t *testing.T) {
	cut := Probed{
		Hop:     diag.HopNodeOpsAccess,
		Status:  diag.StatusFail,
		Signal:  diag.SigOpsSSHFailed,
		Failure: diag.SSHAuth,
		Text:    "refused",
	}
	if c := Classify(Evidence{Probes: []Probed{cut}}); strings.Contains(c.Title, "agent") {
		t.Errorf("nobody measured the agent: %q", c.Title)
	}
	away := Probed{
		Hop:     diag.HopNodeRuntimeAPI,
		Status:  diag.StatusFail,
		Signal:  diag.SigAPIUnreachable,
		Failure: diag.TCPTimeout,
		Text:    "no answer",
	}
	if c := Classify(Evidence{Probes: []Probed{away}}); strings.Contains(c.UserText, "affected") {
		t.Errorf("nobody measured the workload: %q", c.UserText)
	}
	served := []Probed{
		away,
		{Hop: diag.HopAppRuntimeLiveness, Status: diag.StatusPass},
		{Hop: diag.HopAppUserRoute, Status: diag.StatusPass},
	}
	if c := Classify(Evidence{Probes: served}); !strings.HasSuffix(c.UserText, "running work is not affected") {
		t.Errorf("the workload was seen to run: %q", c.UserText)
	}
	if c := Classify(Evidence{}); strings.Contains(c.Title, "wrong") || c.Next == "nothing to do" {
		t.Errorf("nothing was measured: %q, %q", c.Title, c.Next)
	}
}
