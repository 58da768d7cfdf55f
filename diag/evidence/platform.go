package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Item is one event that the platform recorded, with its details. Details are specific to the platform: the caller's
// scrubber decides what is kept of them.
type Item struct {
	diag.EvidenceLine
	Detail map[string]any `json:"detail,omitempty"`
}

// ParseItems parses the platform's list. Any unknown form is an error.
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

// Words returns the details as one line for a scrubber, sorted by name, without nested values.
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

// Platform returns the events that the platform recorded. scrub is called with each item's details as text and returns
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
	area, _, _ := strings.Cut(kind, ".")
	return cmp.Or(map[string]Origin{"task": FromTasks, "terminal": FromSessions}[area], FromEvidence)
}

// bad are the parts of an evidence kind that mean a failure.
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
