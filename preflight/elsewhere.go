package preflight

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/gpuaas/gpuaasctl/diag"
)

// KindElsewhere heads an Elsewhere.
const KindElsewhere = "PreflightComparison"

// Elsewhere is what a walk here has against one of another environment, where the same hop passes: it decides nothing,
// and names the inputs by which the two differ.
type Elsewhere struct {
	diag.Head

	Here  WalkedSide `json:"here"`
	There WalkedSide `json:"there"`
	// Hops pass there and fail here, in chain order, and follow from no other. The first is the first such hop.
	Hops []HopElsewhere `json:"hops"`
	// Symptoms pass there as well, and follow here from another hop.
	Symptoms []diag.HopID `json:"symptoms,omitempty"`
	// Unknown fail here and fail or warn there, too.
	Unknown []diag.HopID `json:"unknown,omitempty"`
	// NotMeasured fail here, and there nothing was measured of them: skipped, not reached, inconclusive, or no hop of that
	// walk.
	NotMeasured []diag.HopID `json:"not_measured,omitempty"`
}

// WalkedSide is one of the two walks.
type WalkedSide struct {
	Profile string       `json:"profile"`
	NodeID  string       `json:"node_id"`
	RunID   string       `json:"run_id"`
	Outcome diag.Outcome `json:"outcome"`
	Blame   diag.HopID   `json:"blame,omitempty"`
}

// HopElsewhere is a hop that passes there and fails here. Fact is the one that decided here; Inputs are empty where
// nothing of the same was asked there.
type HopElsewhere struct {
	Hop     diag.HopID       `json:"hop"`
	Signal  diag.Signal      `json:"signal"`
	Failure diag.Failure     `json:"failure,omitempty"`
	Text    string           `json:"text,omitempty"`
	Fact    string           `json:"fact,omitempty"`
	Inputs  []InputElsewhere `json:"inputs"`
}

// InputElsewhere is an input of a request, a value of the profile (profile.KEY), or what was measured of trust, names
// and routes (measured.FIELD), that differs; "" is not set. A secret is shown as set or not set.
type InputElsewhere struct {
	Name  string `json:"name"`
	Here  string `json:"here"`
	There string `json:"there"`
}

// CompareElsewhere compares two judged walks of two environments.
func CompareElsewhere(here, there *diag.Report) *Elsewhere {
	e := &Elsewhere{Head: diag.NewHead(KindElsewhere), Here: sideOf(here), There: sideOf(there), Hops: []HopElsewhere{}}
	statuses := map[diag.HopID]diag.Status{}
	for i := range there.Hops {
		statuses[there.Hops[i].ID] = there.Hops[i].Status
	}
	facts := byFact(there.Facts)
	for i := range here.Hops {
		h := &here.Hops[i]
		switch {
		case h.Status != diag.StatusFail:
			continue
		case statuses[h.ID] == diag.StatusFail || statuses[h.ID] == diag.StatusWarn:
			e.Unknown = append(e.Unknown, h.ID)
			continue
		case statuses[h.ID] != diag.StatusPass:
			e.NotMeasured = append(e.NotMeasured, h.ID)
			continue
		case slices.Contains(here.Verdict.Symptoms, h.ID):
			e.Symptoms = append(e.Symptoms, h.ID)
			continue
		}
		of := HopElsewhere{Hop: h.ID, Signal: h.Signal, Failure: h.Failure, Text: h.Text}
		for _, id := range h.Evidence {
			asked, _, _ := strings.Cut(id, "~") // the question that a counter-probe was made of
			f := byFact(here.Facts)[asked]
			if g := facts[asked]; f != nil && g != nil {
				of.Fact = asked
				of.Inputs = slices.Concat(differentInputs(here, there, f, g), differentProfile(here, there),
					differentTraits(f, g, false))
				if len(of.Inputs) == 0 {
					of.Inputs = differentTraits(f, g, true)
				}
				break
			}
		}
		if of.Inputs == nil {
			of.Inputs = []InputElsewhere{}
		}
		e.Hops = append(e.Hops, of)
	}
	return e
}

func sideOf(r *diag.Report) WalkedSide {
	s := WalkedSide{Profile: r.Plan.Profile, NodeID: r.Subject.NodeID, RunID: r.Run.ID, Outcome: r.Verdict.Outcome}
	if r.Verdict.Blame != nil {
		s.Blame = r.Verdict.Blame.Hop
	}
	return s
}

// differentInputs are the inputs by which two requests differ, but for who is meant.
func differentInputs(of, other *diag.Report, here, there *diag.Fact) []InputElsewhere {
	var all []InputElsewhere
	a, b := here.Request.Inputs(), there.Request.Inputs()
	a["target"], b["target"] = cmp.Or(here.Target, here.Request.Target), cmp.Or(there.Target, there.Request.Target)
	names := append(diag.Changed(&here.Request, &there.Request), "target")
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		in := InputElsewhere{name, inputText(name, a[name]), inputText(name, b[name])}
		if name != "node_id" && name != "header" && withoutIDs(of, in.Here) != withoutIDs(other, in.There) {
			all = append(all, in)
		}
	}
	return all
}

// ownID is an id that a walk made, or was given.
var ownID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`-[0-9a-f]{16,}`) })

// withoutIDs is text without the ids that are of this walk, its node and its allocation.
func withoutIDs(r *diag.Report, text string) string {
	text = ownID().ReplaceAllString(text, "-ID")
	for _, id := range [...]string{r.Subject.NodeID, r.Subject.AllocationID} {
		if id != "" {
			text = strings.ReplaceAll(text, "/"+id, "/ID")
		}
	}
	return text
}

// inputText is an input in a line.
func inputText(name string, v any) string {
	switch text, isText := v.(string); {
	case v == nil:
		return ""
	case name == "token", name == "cookie", name == "query":
		return "set"
	case name == "ca_inline" && isText:
		return fmt.Sprintf("%d bytes of PEM", len(text))
	case isText:
		return text
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return string(b)
}

// differentTraits are what both facts have of whom is trusted and where it leads, or of whatever, and differs.
func differentTraits(here, there *diag.Fact, whatever bool) []InputElsewhere {
	was := map[string]string{}
	for _, t := range there.Traits() {
		was[t.Field] = t.Value
	}
	var all []InputElsewhere
	for _, t := range here.Traits() {
		row, _ := diag.LookupChange(t.Kind)
		if t.Kind == diag.ChangeGPUIdentity {
			continue
		}
		if v, both := was[t.Field]; (whatever || row.Gate == diag.GateUnseen) && both && v != t.Value {
			all = append(all, InputElsewhere{"measured." + t.Field, t.Value, v})
		}
	}
	return all
}

// differentProfile are the values that one profile sets, and the other does not.
func differentProfile(here, there *diag.Report) []InputElsewhere {
	a, b := here.Subject.Expected, there.Subject.Expected
	both := maps.Clone(a)
	if both == nil {
		both = map[string]string{}
	}
	maps.Copy(both, b)
	var all []InputElsewhere
	for _, key := range slices.Sorted(maps.Keys(both)) {
		if (a[key] == "") != (b[key] == "") && key != "profile_file" {
			all = append(all, InputElsewhere{"profile." + key, a[key], b[key]})
		}
	}
	return all
}
