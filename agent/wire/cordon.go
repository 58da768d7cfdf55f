package wire

// CordonPayload orders a node to stop or to resume taking new tenant work. An absent payload cordons.
type CordonPayload struct {
	Lift   bool   `json:"lift,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Postures of a node, as its heartbeat reports them.
const (
	PostureServing     = "serving"
	PostureRecovering  = "recovering"  // its credential is being repaired, or needs to be
	PostureStopped     = "stopped"     // the platform revoked, retired or fenced it
	PostureQuarantined = "quarantined" // another host may use its identity: it takes no work
)

// CodeNodeCordoned and CodeNodeQuarantined are the result codes of tasks that a node refused because of its
// posture.
const (
	CodeNodeCordoned    = "node_cordoned"
	CodeNodeQuarantined = "node_quarantined"
)
