package wire

// CordonPayload orders a node to take no new tenant work, or to take it again. An absent payload cordons.
type CordonPayload struct {
	Lift   bool   `json:"lift,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Postures of a node, as its heartbeat reports them.
const (
	PostureServing     = "serving"
	PostureRecovering  = "recovering"  // its credential is being repaired, by itself or not yet
	PostureStopped     = "stopped"     // the platform revoked, retired or fenced it
	PostureQuarantined = "quarantined" // another host may have its identity: it takes no work
)

// CodeNodeCordoned and CodeNodeQuarantined are the results of tasks that a node refused for its posture.
const (
	CodeNodeCordoned    = "node_cordoned"
	CodeNodeQuarantined = "node_quarantined"
)
