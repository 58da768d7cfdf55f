// Package explain has the meaning of every word in this tool's output: hops, signals, failures, reasons, claims,
// verdicts, exit codes and the fields of a report. It is generated from the catalogue; it measures nothing and reads no
// file. Its callers are `gpuaasctl explain` and the views that show a word with its meaning.
package explain

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Entry is one meaning of a word. A word may have several: disk_full is a failure, a signal and a reason.
type Entry struct {
	Kind     string   `json:"kind"` // hop, signal, failure, ...
	Word     string   `json:"word"`
	Number   int      `json:"number,omitempty"` // of a hop, in the order of the chain
	Title    string   `json:"title"`
	For      string   `json:"for,omitempty"` // failure to which Do and Steps are limited
	Means    []string `json:"means,omitempty"`
	Measured string   `json:"measured,omitempty"`
	Causes   []string `json:"causes,omitempty"`
	Do       []string `json:"do,omitempty"`     // in order: condition, text, and commands between backticks
	Steps    []Step   `json:"steps,omitempty"`  // Do with its parts as separate fields
	Verify   string   `json:"verify,omitempty"` // the command that verifies the repair
	Example  *Example `json:"example,omitempty"`
	See      []string `json:"see,omitempty"` // related words
}

// Step is a step of Do. Capitals in its commands stand for values that a report fills in.
type Step struct {
	When string `json:"when,omitempty"` // condition: "for disk_inodes: "; absent if the step always applies
	diag.NextStep

	step diag.Step
}

// Line is the step in one line. Every page without a report prints it like this.
func (s *Step) Line() string { return s.When + s.Prose() }

// ForFailure returns a signal's meaning for a blame with failure f: only the steps that apply, in order, without the
// conditions that f decides.
func (e Entry) ForFailure(f diag.Failure) Entry {
	steps := e.Steps
	e.For, e.Steps, e.Do, e.Example = string(f), nil, nil, nil // the example may have another failure
	for _, s := range steps {
		if step, ok := s.step.ForFailure(f); ok {
			e.add(step.Condition(), step)
		}
	}
	return e
}

// Example is an occurrence of a word in a recorded walk or drill.
type Example struct {
	word string
	From string `json:"recording"`
	Text string `json:"text"`
}

// Kind is a vocabulary.
type Kind struct {
	Name  string   `json:"kind"`
	About string   `json:"about"`
	Words []string `json:"words"`
}

type (
	vocab struct {
		kind, about string
		words       []meaning
	}
	meaning    struct{ word, means string }
	field      struct{ name, in, means string }
	trustCause struct {
		id, moved string
		signal    diag.Signal
		steps     []trustStep
	}
	trustStep struct {
		where string // control_plane | profile | node
		step  diag.Step
	}
)

// abouts describes the kinds that have their own rows, in the order of Kinds.
var abouts = [...]meaning{
	{"hop", "a link of the chain from the control plane to a tenant's shell, by id or number"},
	{"signal", "the dashboard's name of a failing hop's fault"},
	{"failure", "what the network or the host did"},
	{"reason", "what is behind it for the platform's operators"},
	{"scenario", "a row of the drift model's failure matrix"},
	{"trust cause", "what moved, where diag trust finds a mismatch"},
	{"claim", "what a drill that passes has shown"},
	{"exit code", "how this tool ends, the same for every command and format"},
	{"field", "a JSON field of a report"},
	{"xid", "an error of NVIDIA's GPU driver in the kernel log, as xid_79"},
	{"sxid", "an error of NVIDIA's NVSwitch driver in the kernel log, as sxid_20034"},
	{"xid class", "what follows from an XID or SXID"},
	{"xid source", "where a view of an XID is from"},
}

// Kinds returns every vocabulary with its words.
func Kinds() []Kind {
	var kinds []Kind
	at := map[string]int{}
	add := func(name, about string) {
		at[name] = len(kinds)
		kinds = append(kinds, Kind{Name: name, About: about})
	}
	for _, a := range abouts {
		add(a.word, a.means)
	}
	for _, v := range vocabRows {
		add(v.kind, v.about)
	}
	for _, e := range All() {
		k := &kinds[at[e.Kind]]
		k.Words = append(k.Words, e.Word)
	}
	return kinds
}

// Lookup returns every meaning of a word, in the order of Kinds; if kind is not "", of that kind only. It accepts words
// as output has them: a hop also by its number, an exit code as "3", a field also as verdict.blame.hop, an anchor of
// the runbook page as reason-disk_full.
func Lookup(kind, word string) []Entry {
	word = joinedUp(strings.TrimSpace(word))
	if code, ok := strings.CutPrefix(word, "HTTP_"); ok {
		word = code
	}
	if rest, ok := strings.CutPrefix(word, "reason_"); ok {
		word, kind = rest, "reason"
	}
	last := word[strings.LastIndexByte(word, '.')+1:]
	word = codeWord(kind, word)
	var found []Entry
	for _, e := range All() {
		is := strings.EqualFold(joinedUp(e.Word), word) || (e.Number > 0 && strconv.Itoa(e.Number) == word) ||
			(e.Kind == "field" && e.Word == last)
		if is && (kind == "" || strings.EqualFold(e.Kind, kind)) {
			found = append(found, e)
		}
	}
	return found
}

// joinedUp returns a word with underscores in place of spaces and dashes.
func joinedUp(word string) string { return strings.NewReplacer("-", "_", " ", "_").Replace(word) }

// All lists every meaning of every word.
func All() []Entry {
	all := slices.Concat(hops(), signals(), failures(), reasons(), scenarios(), trustCauses(), claims(), exits(), fields(),
		xids(), sxids(), xidClasses(), xidSources())
	for _, v := range vocabRows {
		for _, m := range v.words {
			all = append(all, Entry{Kind: v.kind, Word: m.word, Title: m.means, Means: []string{v.about}})
		}
	}
	for i := range all {
		if all[i].Kind == "field" {
			continue
		}
		n, ok := slices.BinarySearchFunc(exampleRows[:], all[i].Word, func(e Example, word string) int {
			return strings.Compare(e.word, word)
		})
		if ok {
			all[i].Example = &exampleRows[n]
		}
	}
	return all
}
