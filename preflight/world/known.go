package world

import (
	"encoding/json"

	"github.com/gpuaas/gpuaasctl/diag"
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

// shows reports whether a failing fact says something about what it asked: this machine sent it, the operator's own
// login was not at fault, no limiter answered in its place, and nothing was left unread for lack of a permission.
func shows(f *diag.Fact) bool {
	return f != nil && !f.Failure.Local() && !f.Failure.Operator() && !f.Throttled() && !reading.NotAllowed(f) &&
		f.Failure != diag.Unsupported
}

func asksFor(f *diag.Fact) bool { return f != nil && reading.AsksForCert(f) }
