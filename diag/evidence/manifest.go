package evidence

import "github.com/gpuaas/gpuaasctl/diag"

// KindBundle is the kind of a bundle's manifest; ManifestName is its file, always the first of the archive; HistoryName
// is the file of the joined history.
const (
	KindBundle   = "EvidenceBundle"
	ManifestName = "manifest.json"
	HistoryName  = "timeline.ndjson"
)

// Manifest lists what a bundle contains, the source of each file, and what is missing and why.
type Manifest struct {
	diag.Head

	RunID         string       `json:"run_id"`
	ToolVersion   string       `json:"tool_version"`
	StartedAt     diag.Time    `json:"started_at"`
	EndedAt       diag.Time    `json:"ended_at"`
	EndedBy       diag.EndedBy `json:"ended_by"`
	Whole         bool         `json:"whole"` // every source that applies was read
	Since         diag.Time    `json:"since"`
	Profile       string       `json:"profile,omitempty"`
	Platform      string       `json:"platform,omitempty"` // its API base
	NodeID        string       `json:"node_id"`
	InstanceID    string       `json:"node_instance_id,omitempty"` // the current one, reported by the node or the platform
	AllocationID  string       `json:"allocation_id,omitempty"`
	WorkflowID    string       `json:"workflow_id,omitempty"`
	CorrelationID string       `json:"correlation_id,omitempty"` // of the failing request, as the operator named it
	WalkID        string       `json:"walk_correlation_id"`      // correlation id of this bundle's own requests

	Clocks  []Clock    `json:"clocks,omitempty"`
	Sources []Gathered `json:"sources"`
	Files   []File     `json:"files"`
}

// The results of reading a source.
const (
	GotWhole   = "ok"
	GotPart    = "partial" // some of it is here
	GotNothing = "missing"
	NotAsked   = "not_asked" // does not apply to this bundle: not a failure
)

// Gathered is one source, and the result of reading it.
type Gathered struct {
	Source     string      `json:"source"`
	Status     string      `json:"status"`
	Why        string      `json:"why,omitempty"`
	DurationMS diag.Millis `json:"duration_ms,omitempty"`
}

// File is one file of the archive.
type File struct {
	Path     string         `json:"path"`
	Size     int64          `json:"size"`
	SHA256   string         `json:"sha256"`
	Source   string         `json:"source"`
	Redacted map[string]int `json:"redacted,omitempty"` // redaction rule -> number of redactions
	Data     []byte         `json:"-"`
}

// Missing returns the sources that are not complete.
func (m *Manifest) Missing() []Gathered {
	var out []Gathered
	for _, g := range m.Sources {
		if g.Status == GotPart || g.Status == GotNothing {
			out = append(out, g)
		}
	}
	return out
}
