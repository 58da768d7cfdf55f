package diag

import (
	"fmt"
	"slices"
	"time"
)

// CheckPoint is one of the five points of evidence that make a node healthy.
type CheckPoint struct {
	ID     PointID `json:"id"`
	Status Mark    `json:"status"`
	Text   string  `json:"text,omitempty"`
}

// PointID names a point, as the platform's read model does.
type PointID string

// Mark is how a point stands. What was not measured is unknown, and unknown is not a pass.
type Mark string

const (
	PointHeartbeat PointID = "heartbeat_current"
	PointIssuer    PointID = "cert_issuer_trusted_by_ingress"
	PointWait      PointID = "task_wait_succeeds"
	PointTask      PointID = "task_completes"
	PointBacklog   PointID = "no_expired_tasks_current"

	MarkPass    Mark = "pass"
	MarkFail    Mark = "fail"
	MarkUnknown Mark = "unknown"
)

// Points lists the five, in the drift model's order.
var Points = [...]PointID{PointHeartbeat, PointIssuer, PointWait, PointTask, PointBacklog}

// checklist fills in the five points. What a probe measured just now counts for more than what the platform remembers;
// of several words of one source the worst counts.
func checklist(e *Evidence) [len(Points)]CheckPoint {
	var list [len(Points)]CheckPoint
	for i, id := range Points {
		list[i] = CheckPoint{ID: id, Status: MarkUnknown, Text: "not measured"}
		sources := [][]CheckPoint{e.Points, ownPoints(e)}
		if e.Node != nil {
			sources = append(sources, e.Node.Checklist)
		}
		for k, source := range sources {
			if p, known := worst(source, id); known {
				list[i] = p
				if k < 2 {
					list[i].Text += contradicted(e, p)
				}
				break
			}
		}
		if n := e.Node; id == PointHeartbeat && n != nil && n.HeartbeatAge == nil && e.heardLately() {
			contact := fmt.Sprintf("last contact %s ago", age(*n.ContactAge))
			if list[i].Status == MarkUnknown {
				list[i].Text = contact + "; when the last heartbeat came is not known"
			} else {
				list[i].Text += "; " + contact
			}
		}
	}
	return list
}

// contradicted names the platform's own word on a point where it is another than what was measured.
func contradicted(e *Evidence, p CheckPoint) string {
	if e.Node == nil {
		return ""
	}
	theirs, known := worst(e.Node.Checklist, p.ID)
	switch {
	case !known || theirs.Status == p.Status:
	case p.ID == PointHeartbeat || p.ID == PointIssuer:
		return "; the platform's own checklist says " + string(theirs.Status)
	case p.Status == MarkPass: // a task and a task wait are events: what the platform remembers came first
		return "; the platform remembers that it failed"
	}
	return ""
}

// heardLately reports whether the platform had contact with the agent, by any request, within the policy.
func (e *Evidence) heardLately() bool {
	return e.Node != nil && e.Node.ContactAge != nil && e.Node.StaleAfter > 0 && *e.Node.ContactAge <= e.Node.StaleAfter
}

// unheard reports whether the platform no longer hears the agent: no heartbeat, nor any other request.
func (v *view) unheard() bool { return v.point(PointHeartbeat).Status == MarkFail && !v.heardLately() }

// point is how one of the five stands.
func (v *view) point(id PointID) CheckPoint { return v.points[slices.Index(Points[:], id)] }

// worst is the word of points on id: a fail before a pass, and of equals the first by text.
func worst(points []CheckPoint, id PointID) (CheckPoint, bool) {
	var out CheckPoint
	for _, p := range points {
		if p.ID != id || p.Status != MarkPass && p.Status != MarkFail {
			continue
		}
		if out.ID == "" || p.Status == MarkFail && out.Status == MarkPass || p.Status == out.Status && p.Text < out.Text {
			out = p
		}
	}
	return out, out.ID != ""
}

// ownPoints are those that follow from numbers: the age of the heartbeat, the fingerprints, the count of stale tasks.
func ownPoints(e *Evidence) []CheckPoint {
	var out []CheckPoint
	add := func(id PointID, ok bool, format string, args ...any) {
		mark := MarkFail
		if ok {
			mark = MarkPass
		}
		out = append(out, CheckPoint{id, mark, fmt.Sprintf(format, args...)})
	}
	if n := e.Node; n != nil {
		switch {
		case n.HeartbeatAge != nil && n.StaleAfter > 0:
			add(PointHeartbeat, *n.HeartbeatAge <= n.StaleAfter, "last heartbeat %s ago, stale after %s", age(*n.HeartbeatAge), n.StaleAfter)
		case n.ContactAge != nil && n.StaleAfter > 0 && !e.heardLately(): // a heartbeat would be a contact
			add(PointHeartbeat, false, "last contact %s ago, stale after %s", age(*n.ContactAge), n.StaleAfter)
		case n.NeverHeard:
			add(PointHeartbeat, false, "no heartbeat ever came")
		}
		if n.StaleTasks != nil {
			add(PointBacklog, *n.StaleTasks == 0, "%d open tasks are past their time", *n.StaleTasks)
		}
	}
	if t := e.Trust; t != nil && t.SigningCA != "" && t.IngressCA != "" && t.SigningCA != t.IngressCA {
		add(PointIssuer, false, "nodes are signed by %.16s..., the node ingress trusts %.16s...", t.SigningCA, t.IngressCA)
	}
	return out
}

// age writes a duration for people.
func age(d time.Duration) string { return max(d, 0).Round(time.Second).String() }
