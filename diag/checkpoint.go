package diag

import "time"

// CheckPoint is one of the five points of evidence that make a node healthy.
type CheckPoint struct {
	ID     PointID `json:"id"`
	Status Mark    `json:"status"`
	Text   string  `json:"text,omitempty"`
}

// PointID is the name of a point in the platform's read model.
type PointID string

// Mark is the result of a point. A point that was not measured is unknown, which is not a pass.
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

// Age formats a duration since some event in whole seconds; a negative one counts as 0.
func Age(d time.Duration) string { return max(d, 0).Round(time.Second).String() }
