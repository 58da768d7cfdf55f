package evidence

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Item is one thing that the platform wrote down, with the details that it gives. Details are whatever that platform
// has: the caller's scrubber decides what of them is kept.
type Item struct {
	diag.EvidenceLine
	Detail map[string]any `json:"detail,omitempty"`
}

// ParseItems reads the platform's list. What is not of the known form is an error, not a guess.
func ParseItems(raw string) ([]Item, error) {
	var items []Item
	if raw == "" {
		return nil, nil
	}
	if err := bounded.Unmarshal([]byte(raw), &items, bounded.Answer()); err != nil {
		return nil, fmt.Errorf("read the platform's evidence: %w", err)
	}
	return items, nil
}

// Words are the details as one line, sorted by name: plain values only. It is what a scrubber is given.
func (i Item) Words() string {
	var words []string
	for name, v := range i.Detail {
		switch v.(type) {
		case map[string]any, []any, nil:
		default:
			words = append(words, fmt.Sprintf("%s=%v", name, v))
		}
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// Platform is the events of what the platform wrote down. scrub is given each detail's words, and what it returns is
// what is kept of them.
func Platform(clock Clock, items []Item, scrub func(string) string) Source {
	s := Source{Clock: clock}
	for _, i := range items {
		e := Event{Origin: originOf(i.Kind), Severity: kindSeverity(i.Kind), SourceTime: i.At, NodeID: i.NodeID,
			InstanceID: i.InstanceID, CorrelationID: i.CorrelationID, AllocationID: i.AllocationID, WorkflowID: i.WorkflowID,
			SessionID: i.SessionID, TaskID: i.TaskID, Message: i.Kind}
		e.field("kind", i.Kind)
		words := scrub(i.Words())
		if words != "" {
			e.Message += " " + words
		}
		if kind, ok := i.Detail["type"].(string); ok && strings.HasPrefix(i.Kind, "task.") {
			e.field("type", scrub(kind))
		}
		s.Events = append(s.Events, e)
	}
	return s
}

func originOf(kind string) Origin {
	switch area, _, _ := strings.Cut(kind, "."); area {
	case "task":
		return FromTasks
	case "terminal":
		return FromSessions
	}
	return FromEvidence
}

// bad are the words in a kind of evidence that mean a failure.
var bad = [...]string{"failed", "denied", "rejected", "refused", "error", "mismatch", "expired", "late", "clone",
	"quarantine"}

func kindSeverity(kind string) Severity {
	for _, w := range bad {
		if strings.Contains(kind, w) {
			return Warning
		}
	}
	return Info
}
