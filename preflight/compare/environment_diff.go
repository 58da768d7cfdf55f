package compare

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

// KindEnvironmentDiff is the kind of an EnvironmentDiff document.
const KindEnvironmentDiff = "PreflightComparison"

// EnvironmentDiff compares a walk here with one of another environment, where the same hop passes. It decides nothing:
// it lists the inputs in which the two differ.
type EnvironmentDiff struct {
	diag.Head

	Here  WalkedSide `json:"here"`
	There WalkedSide `json:"there"`
	// Hops pass there and fail here, in chain order, and are no symptoms of another hop.
	Hops []HopDiff `json:"hops"`
	// Symptoms pass there, and are symptoms of another hop here.
	Symptoms []diag.HopID `json:"symptoms,omitempty"`
	// Unknown fail here, and fail or warn there.
	Unknown []diag.HopID `json:"unknown,omitempty"`
	// NotMeasured fail here, and were not measured there: skipped, not reached, inconclusive, or not in that walk.
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

// HopDiff is a hop that passes there and fails here. Fact decided the failure here; Inputs is empty if there was
// no request for the same fact there.
type HopDiff struct {
	Hop     diag.HopID   `json:"hop"`
	Signal  diag.Signal  `json:"signal"`
	Failure diag.Failure `json:"failure,omitempty"`
	Text    string       `json:"text,omitempty"`
	Fact    string       `json:"fact,omitempty"`
	Inputs  []InputDiff  `json:"inputs"`
}

// InputDiff is an input of a request, a value of the profile (profile.KEY), or a measured property (measured.FIELD),
// by default one of trust, names or routes, that differs; "" is not set. A secret is shown as set or not set.
type InputDiff struct {
	Name  string `json:"name"`
	Here  string `json:"here"`
	There string `json:"there"`
}

// CompareElsewhere compares two judged walks of two environments.
func CompareElsewhere(here, there *diag.Report) *EnvironmentDiff {
	e := &EnvironmentDiff{Head: diag.NewHead(KindEnvironmentDiff), Here: sideOf(here), There: sideOf(there),
		Hops: []HopDiff{}}
	statuses := map[diag.HopID]diag.Status{}
	for i := range there.Hops {
		statuses[there.Hops[i].ID] = there.Hops[i].Status
	}
	facts := diag.FactsByID(there.Facts)
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
		of := HopDiff{Hop: h.ID, Signal: h.Signal, Failure: h.Failure, Text: h.Text}
		for _, id := range h.Evidence {
			asked, _, _ := strings.Cut(id, "~") // the request that the counter-probe varies
			f := diag.FactsByID(here.Facts)[asked]
			if g := facts[asked]; f != nil && g != nil {
				of.Fact = asked
				of.Inputs = slices.Concat(differentInputs(here, there, f, g), differentProfile(here, there),
					differentProperties(f, g, false))
				if len(of.Inputs) == 0 {
					of.Inputs = differentProperties(f, g, true)
				}
				break
			}
		}
		if of.Inputs == nil {
			of.Inputs = []InputDiff{}
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

// differentInputs returns the inputs in which two requests differ, apart from the ids of node, allocation and walk.
func differentInputs(of, other *diag.Report, here, there *diag.Fact) []InputDiff {
	var all []InputDiff
	a, b := here.Request.Inputs(), there.Request.Inputs()
	a["target"], b["target"] = cmp.Or(here.Target, here.Request.Target), cmp.Or(there.Target, there.Request.Target)
	names := append(diag.Changed(&here.Request, &there.Request), "target")
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		in := InputDiff{name, inputText(name, a[name]), inputText(name, b[name])}
		if name != "node_id" && name != "header" && withoutIDs(of, in.Here) != withoutIDs(other, in.There) {
			all = append(all, in)
		}
	}
	return all
}

// ownID matches an id that was generated for a walk.
var ownID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`-[0-9a-f]{16,}`) })

// withoutIDs replaces the generated ids, and those of the node and the allocation.
func withoutIDs(r *diag.Report, text string) string {
	text = ownID().ReplaceAllString(text, "-ID")
	for _, id := range [...]string{r.Subject.NodeID, r.Subject.AllocationID} {
		if id != "" {
			text = strings.ReplaceAll(text, "/"+id, "/ID")
		}
	}
	return text
}

// inputText formats an input on one line, and a secret as "set".
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

// differentProperties returns the properties that both facts have and that differ: those of trust, names and routes, or
// with whatever all of them.
func differentProperties(here, there *diag.Fact, whatever bool) []InputDiff {
	was := map[string]string{}
	for _, t := range there.Properties() {
		was[t.Field] = t.Value
	}
	var all []InputDiff
	for _, t := range here.Properties() {
		row, _ := diag.LookupChange(t.Kind)
		if t.Kind == diag.ChangeGPUIdentity {
			continue
		}
		if v, both := was[t.Field]; (whatever || row.Gate == diag.GateUnseen) && both && v != t.Value {
			all = append(all, InputDiff{"measured." + t.Field, t.Value, v})
		}
	}
	return all
}

// differentProfile returns the values that only one of the two profiles sets.
func differentProfile(here, there *diag.Report) []InputDiff {
	a, b := here.Subject.Expected, there.Subject.Expected
	both := maps.Clone(a)
	if both == nil {
		both = map[string]string{}
	}
	maps.Copy(both, b)
	var all []InputDiff
	for _, key := range slices.Sorted(maps.Keys(both)) {
		if (a[key] == "") != (b[key] == "") && key != "profile_file" {
			all = append(all, InputDiff{"profile." + key, a[key], b[key]})
		}
	}
	return all
}
