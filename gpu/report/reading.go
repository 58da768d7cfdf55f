package report

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Reading is the answer to one question: exactly one of its fields is set. Its zero value is invalid, so that a missing
// answer cannot be taken for zero.
type Reading struct {
	Value       *int64  `json:"value,omitempty"`
	Text        *string `json:"text,omitempty"`
	Unsupported bool    `json:"not_supported,omitempty"` // NVML's 3: this GPU or driver does not support it
	Failed      int     `json:"failed,omitempty"`        // NVML's return code, neither 0 nor 3
	NotAsked    Why     `json:"not_asked,omitempty"`
}

// Why is why a question was not asked.
type Why string

// Reasons for not asking.
const (
	NoSymbol  Why = "no_symbol"  // the driver's library lacks the call
	NoHandle  Why = "no_handle"  // the GPU has no handle
	NoLibrary Why = "no_library" // the library could not be loaded or initialised
	WasLost   Why = "gpu_lost"   // an earlier call about the GPU returned GPUIsLost
	NotThere  Why = "not_there"  // the link or instance does not exist
	Late      Why = "deadline"   // the sample's deadline had passed
	NoAnswer  Why = "unreadable" // the answer was not a number or text that can be stored
)

const notSupported = 3 // NVML's return code

// ReadingOf is a value.
func ReadingOf(n int64) Reading { return Reading{Value: &n} }

// Flag returns a value of 0 or 1.
func Flag(on bool) Reading {
	if on {
		return ReadingOf(1)
	}
	return ReadingOf(0)
}

// Words returns a text value, shortened to the maximum length.
func Words(s string) Reading {
	if !utf8.ValidString(s) {
		return Skipped(NoAnswer)
	}
	s = s[:min(len(s), maxText)]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return Reading{Text: &s}
}

// Refused returns the reading for an NVML return code other than 0.
func Refused(code int) Reading {
	switch code {
	case 0:
		return Skipped(NoAnswer)
	case notSupported:
		return Reading{Unsupported: true}
	}
	return Reading{Failed: code}
}

// Skipped returns the reading for a question that was not asked.
func Skipped(w Why) Reading { return Reading{NotAsked: w} }

// Number returns the value; false if the reading has none.
func (r Reading) Number() (int64, bool) {
	if r.Value == nil {
		return 0, false
	}
	return *r.Value, true
}

// Known reports whether the reading is a number or a text.
func (r Reading) Known() bool { return r.Value != nil || r.Text != nil }

// FailedWith reports whether the call failed with that return code.
func (r Reading) FailedWith(code int) bool { return r.Failed == code && code != 0 }

// Equal reports whether both are the same answer.
func (r Reading) Equal(o Reading) bool {
	return r.String() == o.String() && (r.Text == nil) == (o.Text == nil)
}

// String describes the reading: "34", "not supported", "failed (15)", "not asked (no_symbol)".
func (r Reading) String() string {
	switch {
	case r.Value != nil:
		return strconv.FormatInt(*r.Value, 10)
	case r.Text != nil:
		return *r.Text
	case r.Unsupported:
		return "not supported"
	case r.Failed != 0:
		return "failed (" + strconv.Itoa(r.Failed) + ")"
	case r.NotAsked != "":
		return "not asked (" + string(r.NotAsked) + ")"
	}
	return "no reading"
}

func (r Reading) check() error {
	set := 0
	for _, is := range [...]bool{r.Value != nil, r.Text != nil, r.Unsupported, r.Failed != 0, r.NotAsked != ""} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return fmt.Errorf("a reading with %d answers, want one", set)
	case r.Text != nil && !short(*r.Text):
		return errors.New("a text that is too long")
	case r.Failed == notSupported:
		return errors.New("return code 3 is not_supported, not failed")
	case r.Failed < 0:
		return fmt.Errorf("return code %d", r.Failed)
	case !slices.Contains([]Why{"", NoSymbol, NoHandle, NoLibrary, WasLost, NotThere, Late, NoAnswer}, r.NotAsked):
		return fmt.Errorf("unknown reason %q", r.NotAsked)
	}
	return nil
}
