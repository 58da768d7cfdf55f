package preflight

import (
	"context"
	"encoding/json"
	"sort"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	// evidenceTimeout bounds the look at what the far side wrote down: it is an extra, never a reason to wait.
	evidenceTimeout = 2 * time.Second
	// maxEvidence bounds what one report carries of it.
	maxEvidence = 200
)

// Evidence pulls back what the platform recorded under this walk's correlation id and, when the operator named one,
// under the failing request's. It is shown, not judged. A platform that keeps none gives none.
func Evidence(ctx context.Context, e *Env, operator Vantage) []diag.EvidenceLine {
	ids := []string{e.CorrelationID}
	if id := e.Subject.CorrelationID; id != "" && id != e.CorrelationID {
		ids = append(ids, id)
	}
	var reqs []diag.Request
	for _, id := range ids {
		path := e.path(profile.PathEvidence, map[string]string{"correlation_id": id})
		items := e.Profile.Mapping.Field("evidence.items")
		if path == "" || items == "" || e.Token.IsZero() || e.Profile.APIBase == "" {
			return nil
		}
		req := e.api("GET", profile.PathEvidence, map[string]string{"correlation_id": id}, "evidence.items")
		req.ID, req.TimeoutMS = "evidence/"+id, evidenceTimeout.Milliseconds()
		reqs = append(reqs, req)
	}
	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()
	var lines []diag.EvidenceLine
	for _, f := range operator.Probe(ctx, reqs) {
		if f.Passed() && f.HTTP != nil {
			lines = append(lines, parseEvidence(f.HTTP.Fields["evidence.items"])...)
		}
	}
	sort.SliceStable(lines, func(i, j int) bool { return lines[i].At.Before(lines[j].At.Time) })
	if len(lines) > maxEvidence {
		lines = lines[:maxEvidence]
	}
	return lines
}

// parseEvidence reads a JSON list; what is not of the known form is left out, not guessed.
func parseEvidence(raw string) []diag.EvidenceLine {
	var items []diag.EvidenceLine
	if raw == "" || json.Unmarshal([]byte(raw), &items) != nil {
		return nil
	}
	return items
}
