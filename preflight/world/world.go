package world

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// Known is what is known of one property: yes, no, or not measured, which is neither.
type Known struct {
	is Answer
	of [2]*diag.Fact // what it rests on
}

// Answer is the value of a property.
type Answer string

// The answers.
const (
	NotMeasured Answer = "not_measured"
	No          Answer = "no"
	Yes         Answer = "yes"
)

// Yes reports whether the property is known to hold.
func (k Known) Yes() bool { return k.is == Yes }

// No reports whether the property is known not to hold.
func (k Known) No() bool { return k.is == No }

// Is returns the answer.
func (k Known) Is() Answer {
	if k.is == "" {
		return NotMeasured
	}
	return k.is
}

// RestsOn returns the ids of the facts that the answer rests on.
func (k Known) RestsOn() (ids []string) {
	for _, f := range k.of {
		if f != nil {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

// MarshalJSON writes the answer and what it rests on.
func (k Known) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Is      Answer   `json:"is"`
		RestsOn []string `json:"rests_on,omitempty"`
	}{k.Is(), k.RestsOn()})
}

// either is yes or no, if one of them is shown, and rests on these facts; shown by neither, the property was not
// measured.
func either(yes, no bool, of ...*diag.Fact) Known {
	k := Known{}
	switch {
	case yes:
		k.is = Yes
	case no:
		k.is = No
	default:
		return k
	}
	copy(k.of[:], of)
	return k
}

// KindWorld is the kind of a World document.
const KindWorld = "PreflightWorld"

// World is what the facts of one walk show about its parties. It is computed from facts alone: no hop is judged for it.
type World struct {
	diag.Head

	Operator Operator `json:"operator"`
	Platform Platform `json:"platform"`
	Ingress  Ingress  `json:"ingress"`
	Identity Identity `json:"identity"`
	Node     Node     `json:"node"`
	Agent    Agent    `json:"agent"`
	Gateway  Gateway  `json:"gateway"`
	Session  Session  `json:"session"`
	Workload Workload `json:"workload"`
	GPUs     GPUs     `json:"gpus"`
}

// Of returns the world of a case.
func Of(c *hop.Case) *World {
	return &World{
		Head: diag.NewHead(KindWorld), Operator: operatorOf(c), Platform: platformOf(c), Ingress: ingressOf(c),
		Identity: identityOf(c), Node: nodeOf(c), Agent: agentOf(c), Gateway: gatewayOf(c), Session: sessionOf(c),
		Workload: workloadOf(c), GPUs: gpusOf(c),
	}
}

// Property is one property of a party.
type Property struct {
	Party, Name string // as in JSON
	Known
}

// Properties returns all properties, in the order of the struct.
func (w *World) Properties() (all []Property) {
	v := reflect.ValueOf(w).Elem()
	for i := range v.NumField() {
		party := v.Field(i)
		if v.Type().Field(i).Anonymous {
			continue
		}
		for k := range party.NumField() {
			all = append(all, Property{jsonName(v.Type().Field(i)), jsonName(party.Type().Field(k)),
				party.Field(k).Interface().(Known)})
		}
	}
	return all
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// shows reports whether a failing fact says something about what it asked: this machine sent it, the operator's own
// login was not at fault, no limiter answered in its place, and nothing was left unread for lack of a permission.
func shows(f *diag.Fact) bool {
	return f != nil && !f.Failure.Local() && !f.Failure.Operator() && !f.Throttled() && !reading.NotAllowed(f) &&
		f.Failure != diag.Unsupported
}

func asksFor(f *diag.Fact) bool { return f != nil && reading.AsksForCert(f) }
