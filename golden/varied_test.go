package golden

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// shown prints the judged documents of one fact's variations, as "reports/NAME FACT": to compare two checkouts.
const shown = "GPUAASCTL_VARIED"

// TestVariedFacts judges every recording with each fact as it might also have been: absent, cut short, refused, another
// value, at a rule's bound. It is a detector of changes on purpose: no rule says what most of these verdicts must be,
// only that a refactoring changes none, and that a changed rule shows what else it changes. varied/ has them, by
// recording and fact; a verdict that is the recording's own is left out, and a digest covers everything else that was
// judged. A plain run takes a fixed sample of the facts. Besides, what must hold of every report is checked of each.
func TestVariedFacts(t *testing.T) {
	for _, path := range some(recordings(t)) {
		t.Run(strings.TrimSuffix(path, ".json"), func(t *testing.T) {
			t.Parallel()
			variedRecording(t, path)
		})
	}
}

// share is how many facts there are for each one that a plain run varies.
const share = 2

func variedRecording(t *testing.T, path string) {
	whole := recorded(t, path)
	whole.Verdict = diag.Verdict{} // its proof would have to hold
	file := filepath.Join("varied", strings.TrimSuffix(path, ".json")+".txt")
	v := &varied{t: t, path: path, whole: whole, own: inShort(judged(t, whole))}
	everything := tier.Deep() || goldentest.Writing()
	var out strings.Builder
	fmt.Fprintf(&out, "== %s\n%s\n", path, strings.Join(v.own, ", "))
	was := map[string]string{}
	if !goldentest.Writing() {
		was = sectionsOf(t, file)
	}
	for i := -1; i < len(whole.Facts); i++ {
		name, variations := "the walk", walkVariations
		if i >= 0 {
			name, variations = whole.Facts[i].ID, func(r *diag.Report) []variation { return factVariations(r, i) }
		}
		if !everything && os.Getenv(shown) != path+" "+name && !chosen(share, path, name) {
			continue
		}
		text := v.section(name, variations(whole))
		out.WriteString(text)
		if !goldentest.Writing() && was[name] != text {
			v.differs(name, was[name], text)
		}
	}
	if goldentest.Writing() {
		goldentest.Check(t, file, out.String())
	}
}

// varied is one recording.
type varied struct {
	t     *testing.T
	path  string
	whole *diag.Report
	own   []string
}

// section judges the variations of one fact. Its first line is the fact and a digest of all reports; then follow the
// verdicts that are not the recording's own, each with its variations.
func (v *varied) section(name string, all []variation) string {
	digest := sha256.New()
	var verdicts []string
	by := map[string][]string{}
	for _, one := range all {
		r := *v.whole
		one.apply(&r)
		again := judged(v.t, &r)
		for _, problem := range problemsOf(&r, again, name, one.unmeasured) {
			v.t.Errorf("%s, %s %s: %s", v.path, name, one.name, problem)
		}
		if why := staysRed(v.t, again); why != "" {
			v.t.Errorf("%s, %s %s: %s", v.path, name, one.name, why)
		}
		v.add(digest, name, one.name, again)
		text := changed(v.own, inShort(again))
		if text == "" {
			continue
		}
		if by[text] == nil {
			verdicts = append(verdicts, text)
		}
		by[text] = append(by[text], one.name)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "\n%s %x\n", name, digest.Sum(nil)[:4])
	for _, text := range verdicts {
		fmt.Fprintf(&out, "  %s\n    %s\n", text, strings.Join(by[text], "; "))
	}
	return out.String()
}

// add adds to a digest everything that was judged.
func (v *varied) add(digest hash.Hash, fact, name string, r *diag.Report) {
	text, err := json.Marshal([]any{r.Subject, r.Hops, r.Verdict, r.Classification, r.Dashboard})
	if err != nil {
		v.t.Fatal(err)
	}
	_, _ = digest.Write(text)
	if os.Getenv(shown) == v.path+" "+fact {
		fmt.Printf("== %s\n%s\n", name, text)
	}
}

// judged replays a report.
func judged(t *testing.T, r *diag.Report) *diag.Report {
	t.Helper()
	again, err := verdict.Replay(hops.BuiltIn(), r)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// inShort lists the decisions of a report: what changes one of them is worth a line.
func inShort(r *diag.Report) []string {
	v := &r.Verdict
	decisions := []string{string(v.Outcome), strings.TrimSpace(string(v.Reason) + " " + v.Severity)}
	if ops.UnknownSubject(r) {
		decisions = append(decisions, "unknown subject")
	}
	if v.FirstFailedHop != "" {
		decisions = append(decisions, "first "+string(v.FirstFailedHop))
	}
	if v.Blame != nil {
		decisions = append(decisions, "blame "+string(v.Blame.Hop)+" "+string(v.Blame.Signal), rootInShort(&diag.Blame{
			Hop: v.Blame.Hop, Status: v.Blame.Status, Signal: v.Blame.Signal, Failure: v.Blame.Failure,
			Owner: v.Owner, Confidence: v.Confidence, Proof: v.Proof, Observation: v.Observation}))
	} else if v.Owner != "" {
		decisions = append(decisions, "owner "+v.Owner)
	}
	for i := range v.OtherFindings {
		decisions = append(decisions, rootInShort(&v.OtherFindings[i]))
	}
	return decisions
}

func rootInShort(b *diag.Blame) string {
	words := []string{string(b.Hop), string(b.Status), string(b.Signal), string(b.Failure), string(b.Confidence)}
	if b.Proof != nil {
		words = append(words, "by", b.Proof.Changed)
	}
	if b.Observation != nil {
		words = append(words, "in", b.Observation.Field)
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// changed lists the decisions that are new, and the faults that are gone; "" if nothing has changed.
func changed(from, to []string) string {
	var words []string
	for _, d := range to {
		if !slices.Contains(from, d) {
			words = append(words, d)
		}
	}
	for _, d := range from {
		if !slices.Contains(to, d) &&
			(strings.Contains(d, "_") && strings.Count(d, " ") > 1) && !strings.HasPrefix(d, "blame ") {
			words = append(words, "no "+d)
		}
	}
	if len(words) == 0 && !slices.Equal(from, to) {
		return "nothing more, or in another order"
	}
	return strings.Join(words, ", ")
}

// sectionsOf reads a file of varied/ by fact.
func sectionsOf(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (make golden writes it)", err)
	}
	sections := map[string]string{}
	for _, s := range strings.SplitAfter(string(text), "\n\n") {
		head, _, _ := strings.Cut(s, "\n")
		if i := strings.LastIndexByte(head, ' '); i >= 0 {
			sections[head[:i]] = "\n" + strings.TrimRight(s, "\n") + "\n"
		}
	}
	return sections
}

// differs reports the variations of a fact whose verdict is another one than before.
func (v *varied) differs(name, was, is string) {
	before, now := byVariation(was), byVariation(is)
	n := 0
	for _, one := range slices.Sorted(maps.Keys(now)) {
		if before[one] == now[one] {
			delete(before, one)
			continue
		}
		v.t.Errorf("%s with %s %s\n  was %s\n  is  %s", v.path, name, one, cmp.Or(before[one], "as recorded"), now[one])
		delete(before, one)
		if n++; n == 3 {
			return
		}
	}
	for _, one := range slices.Sorted(maps.Keys(before)) {
		v.t.Errorf("%s with %s %s\n  was %s\n  is  as recorded", v.path, name, one, before[one])
		if n++; n == 3 {
			return
		}
	}
	if n == 0 {
		v.t.Errorf("%s with variations of %s: the same decisions; other texts or states of hops (%s=%q prints them)", v.path,
			name, shown, v.path+" "+name)
	}
}

// byVariation reads a section: the changed decisions by variation.
func byVariation(section string) map[string]string {
	lines, by := strings.Split(section, "\n"), map[string]string{}
	for i := range lines {
		if names, found := strings.CutPrefix(lines[i], "    "); found {
			for _, name := range strings.Split(names, "; ") {
				by[name] = strings.TrimSpace(lines[i-1])
			}
		}
	}
	return by
}
