package diag

import (
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
func tables() map[string]Text {
	out := map[string]Text{}
	for _, r := range Reasons() {
		out[string(r.Code)+" title"], out[string(r.Code)+" user"], out[string(r.Code)+" next"] = r.Title, r.UserText,
			r.NextAction
	}
	for _, m := range Scenarios() {
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
					if !knownFact(n.Of) || (n.Is != MarkPass && n.Is != MarkFail) {
						t.Errorf("%s: %q needs %v", where, w.Says, n)
					}
				}
			}
		}
	}
}

func knownFact(of string) bool {
	return slices.Contains(Points[:], PointID(of)) || slices.Contains(HopIDs(), HopID(of)) || of == FactContact ||
		of == FactToken || of == FactHeartbeatAnswer
}

// evidenceOf returns evidence that names code, in which exactly the facts of the mask are measured: by the platform's
// checklist, by hops that support no reason, by its last contact and by the token.
func evidenceOf(code ReasonCode, mask Seen) Evidence {
	e := Evidence{Node: &NodeEvidence{Reason: code, StaleAfter: time.Minute}}
	for _, p := range Points {
		if m := mask[string(p)]; m != "" {
			e.Node.Checklist = append(e.Node.Checklist, CheckPoint{ID: p, Status: m, Text: "masked"})
		}
	}
	for _, h := range HopIDs() {
		switch mask[string(h)] {
		case MarkPass:
			e.Probes = append(e.Probes, Probed{Hop: h, Status: StatusPass})
		case MarkFail:
			e.Probes = append(e.Probes, Probed{Hop: h, Status: StatusFail, Reason: ReasonNone, Text: "masked"})
		}
	}
	ages := map[Mark]time.Duration{MarkPass: time.Second, MarkFail: time.Hour}
	if age, ok := ages[mask[FactContact]]; ok {
		e.Node.ContactAge = &age
	}
	e.Token = map[Mark]TokenState{MarkPass: TokenCurrent, MarkFail: TokenGone}[mask[FactToken]]
	return e
}

// factsOf returns the facts that texts of one reason may need, with the five points and the workload's hops.
func factsOf(code ReasonCode) []string {
	out := []string{string(HopAppRuntimeLiveness), string(HopAppUserRoute)}
	for _, p := range Points {
		out = append(out, string(p))
	}
	row, _ := LookupReason(code)
	texts := []Text{row.Title, row.UserText, row.NextAction}
	for _, m := range Scenarios() {
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
func masks(facts []string, each func(Seen)) {
	n := 1
	for range facts {
		n *= 3
	}
	marks := []Mark{"", MarkPass, MarkFail}
	for ; n > 0; n-- {
		mask := Seen{}
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
	wordings := map[string][][]Need{} // one wording may occur in several places
	for _, text := range tables() {
		for _, c := range text {
			for _, w := range c {
				wordings[w.Says] = append(wordings[w.Says], w.Needs)
			}
		}
	}
	for i, r := range Reasons() {
		if testing.Short() && i%5 != 0 { // the race detector's run takes every fifth: the code is the same
			continue
		}
		facts := factsOf(r.Code)
		masks(facts, func(mask Seen) {
			e := evidenceOf(r.Code, mask)
			c := Classify(e)
			seen := look(&e).seen()
			for _, clause := range strings.Split(c.Title+"; "+c.UserText+"; "+c.Next, "; ") {
				if needs, ok := wordings[clause]; ok && !slices.ContainsFunc(needs, func(all []Need) bool {
					return !slices.ContainsFunc(all, func(n Need) bool { return seen[n.Of] != n.Is })
				}) {
					t.Fatalf("%s with %v: says %q, which needs %v", r.Code, mask, clause, needs)
				}
			}
			for of := range seen { // facts outside the mask must not be measured in any other way
				derived := slices.Contains([]string{FactContact, FactNode, FactWorkload, FactRoute, string(PointHeartbeat)}, of)
				if mask[of] == "" && !derived {
					t.Fatalf("%s with %v: %s counts as measured", r.Code, mask, of)
				}
			}
		})
	}
}

// TestWordsOfTheIssue: texts that a previous version showed for a node about which nothing was known.
func TestWordsOfTheIssue(t *testing.T) {
	cut := Probed{Hop: HopNodeOpsAccess, Status: StatusFail, Signal: SigOpsSSHFailed, Failure: SSHAuth, Text: "refused"}
	if c := Classify(Evidence{Probes: []Probed{cut}}); strings.Contains(c.Title, "agent") {
		t.Errorf("nobody measured the agent: %q", c.Title)
	}
	away := Probed{Hop: HopNodeRuntimeAPI, Status: StatusFail, Signal: SigAPIUnreachable, Failure: TCPTimeout,
		Text: "no answer"}
	if c := Classify(Evidence{Probes: []Probed{away}}); strings.Contains(c.UserText, "affected") {
		t.Errorf("nobody measured the workload: %q", c.UserText)
	}
	served := []Probed{away, {Hop: HopAppRuntimeLiveness, Status: StatusPass}, {Hop: HopAppUserRoute, Status: StatusPass}}
	if c := Classify(Evidence{Probes: served}); !strings.HasSuffix(c.UserText, "running work is not affected") {
		t.Errorf("the workload was seen to run: %q", c.UserText)
	}
	if c := Classify(Evidence{}); strings.Contains(c.Title, "wrong") || c.Next == "nothing to do" {
		t.Errorf("nothing was measured: %q, %q", c.Title, c.Next)
	}
}
