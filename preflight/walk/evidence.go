package walk

import (
	"context"
	"sort"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	// evidenceTimeout bounds the read of the platform's evidence: it is an extra, never a reason to wait.
	evidenceTimeout = 2 * time.Second
	// MaxEvidence bounds the lines of evidence in one report.
	MaxEvidence = 200

	evidenceItems, evidenceTruncated = "evidence.items", "evidence.truncated"
)

// Evidence returns what the platform recorded under this walk's correlation id and, if the operator named them, under
// the failing request's and its terminal session's: the newest lines, in time order, and whether there are more. An
// error that belongs to a step of this walk is quoted in its finding (see RecordedErrors). A platform that records no
// evidence gives none.
func Evidence(ctx context.Context, e *hop.Env, operator hop.Vantage) (lines []diag.EvidenceLine, cut bool) {
	reqs := EvidenceRequests(e)
	if len(reqs) == 0 {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()
	seen := map[diag.EvidenceLine]bool{}
	for _, f := range operator.Probe(ctx, reqs) {
		e.Known.Clean(&f)
		if !f.Passed() || f.HTTP == nil {
			continue
		}
		cut = cut || f.HTTP.Fields[evidenceTruncated] == "true"
		items := ParseEvidence(f.HTTP.Fields[evidenceItems], e.Scrub)
		for _, l := range items {
			if !seen[l] { // a session's evidence repeats that of its request
				lines = append(lines, l)
			}
		}
		for _, l := range items {
			seen[l] = true
		}
	}
	sort.SliceStable(lines, func(i, j int) bool { return lines[i].At.Before(lines[j].At.Time) })
	if over := len(lines) - MaxEvidence; over > 0 {
		lines, cut = lines[over:], true
	}
	return lines, cut
}

// EvidenceRequests returns one request for each id, as far as this platform supports them.
func EvidenceRequests(e *hop.Env) []diag.Request {
	var reqs []diag.Request
	add := func(path, name, id string) {
		if id == "" || e.Token.IsZero() || e.Profile.Mapping.Field(evidenceItems) == "" {
			return
		}
		req := e.API(path, map[string]string{name: id}, evidenceItems, evidenceTruncated)
		if req.Op != "" {
			req.ID, req.TimeoutMS = "evidence/"+id, evidenceTimeout.Milliseconds()
			reqs = append(reqs, req)
		}
	}
	add(profile.PathEvidence, "correlation_id", e.CorrelationID)
	if id := e.Subject.CorrelationID; id != e.CorrelationID {
		add(profile.PathEvidence, "correlation_id", id)
	}
	add(profile.PathSessionEvidence, "session_id", e.Subject.SessionID)
	return reqs
}

// ParseEvidence parses a JSON list of evidence; other text gives none. Of an item's detail it keeps code and message,
// shortened and without the secrets that scrub removes; if scrub is nil, they are dropped.
func ParseEvidence(raw string, scrub func(string) string) []diag.EvidenceLine {
	var items []struct {
		diag.EvidenceLine
		Detail struct {
			Code    any `json:"code"`
			Message any `json:"message"`
		} `json:"detail"`
	}
	if raw == "" || bounded.Unmarshal([]byte(raw), &items, bounded.Answer()) != nil {
		return nil
	}
	lines := make([]diag.EvidenceLine, len(items))
	for i, it := range items {
		lines[i] = it.EvidenceLine
		code, _ := it.Detail.Code.(string)
		message, _ := it.Detail.Message.(string)
		if scrub != nil { // before the text is cut, since half a token would not be recognized
			lines[i].Code, lines[i].Error = reading.OneLine(scrub(code)), reading.OneLine(scrub(message))
		}
	}
	return lines
}
