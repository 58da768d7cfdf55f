package preflight

import (
	"context"
	"sort"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	// evidenceTimeout bounds the read of what the far side recorded: it is an extra, never a reason to wait.
	evidenceTimeout = 2 * time.Second
	// maxEvidence bounds what one report carries of it.
	maxEvidence = 200

	evidenceItems, evidenceTruncated = "evidence.items", "evidence.truncated"
)

// Evidence pulls back what the platform recorded under this walk's correlation id and, when the operator named them,
// under the failing request's and its terminal session's: the newest of it, in time order, and whether there is more.
// It is shown, and an error in it that belongs to a step of this walk is quoted there (see ownWords). A platform
// that keeps none gives none.
func Evidence(ctx context.Context, e *Env, operator Vantage) (lines []diag.EvidenceLine, cut bool) {
	reqs := evidenceRequests(e)
	if len(reqs) == 0 {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()
	seen := map[diag.EvidenceLine]bool{}
	for _, f := range operator.Probe(ctx, reqs) {
		if !f.Passed() || f.HTTP == nil {
			continue
		}
		cut = cut || f.HTTP.Fields[evidenceTruncated] == "true"
		items := parseEvidence(f.HTTP.Fields[evidenceItems], e.Scrub)
		for _, l := range items {
			if !seen[l] { // a session's evidence is that of its request, too
				lines = append(lines, l)
			}
		}
		for _, l := range items {
			seen[l] = true
		}
	}
	sort.SliceStable(lines, func(i, j int) bool { return lines[i].At.Before(lines[j].At.Time) })
	if over := len(lines) - maxEvidence; over > 0 {
		lines, cut = lines[over:], true
	}
	return lines, cut
}

// evidenceRequests asks for one id each, as far as this platform can be asked.
func evidenceRequests(e *Env) []diag.Request {
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

// parseEvidence reads a JSON list; what is not of the known form is left out, not guessed. Of an item's detail the
// error is kept, in bounded words and without secrets; it is dropped where scrub, which removes them, is nil.
func parseEvidence(raw string, scrub func(string) string) []diag.EvidenceLine {
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
			lines[i].Code, lines[i].Error = oneLine(scrub(code)), oneLine(scrub(message))
		}
	}
	return lines
}
