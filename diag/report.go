package diag

// APIVersion and KindPreflight identify every report.
const (
	APIVersion    = "gpuaasctl/v1"
	KindPreflight = "PreflightReport"
)

// FactsBlame is the value of Report.FactsKept in a reduced report.
const FactsBlame = "blame"

// Report is one walk: the facts, and what was judged from them. Hops, Verdict and Dashboard are functions of
// Subject, Plan, Run and Facts alone, so a report can be replayed.
type Report struct {
	Head

	Run      Run           `json:"run"`
	Subject  Subject       `json:"subject"`
	Plan     Plan          `json:"plan"`
	Vantages []VantageInfo `json:"vantages"`
	Hops     []HopResult   `json:"hops"` // every declared hop, in chain order
	Facts    []Fact        `json:"facts"`
	// FactsKept is "blame" if facts has only those that support the verdict: such a report is shown as it was judged,
	// and is neither judged again nor compared.
	FactsKept string `json:"facts_kept,omitempty"`
	// what the platform recorded under the correlation ids, in time order
	Evidence []EvidenceLine `json:"evidence,omitempty"`
	// EvidenceCut reports that the platform has older evidence that the report lacks.
	EvidenceCut bool    `json:"evidence_cut,omitempty"`
	Verdict     Verdict `json:"verdict"`
	// Classification is derived from all evidence about the node; Verdict's reason and user state are copied from it.
	Classification *Classification `json:"classification,omitempty"`
	Dashboard      Dashboard       `json:"dashboard"`
	Diff           *Diff           `json:"diff,omitempty"` // against a baseline, if one was requested
	// Replayed is present if a replay with this version's rules gives another verdict than the walk's own report.
	Replayed  *Replayed `json:"replayed,omitempty"`
	Redaction Redaction `json:"redaction"`
}

// Replayed is the previous verdict, where a replay of the same facts gives another one.
type Replayed struct {
	Stated StatedVerdict `json:"stated"`
}

// StatedVerdict is the part of a verdict that a replay compares, with the version of the rules that gave it.
type StatedVerdict struct {
	Outcome        Outcome    `json:"outcome"`
	FirstFailedHop HopID      `json:"first_failed_hop,omitempty"`
	Hop            HopID      `json:"hop,omitempty"` // blamed hop; Signal and Failure are also the blame's
	Signal         Signal     `json:"signal,omitempty"`
	Failure        Failure    `json:"failure,omitempty"`
	Confidence     Confidence `json:"confidence,omitempty"`
	Reason         ReasonCode `json:"reason"`
	RulesVersion   string     `json:"rules_version"`
}

// EndedBy is how a walk ended. Only a completed walk can pass.
type EndedBy string

const (
	EndedCompleted   EndedBy = "completed"
	EndedDeadline    EndedBy = "deadline"
	EndedInterrupted EndedBy = "interrupted"
	EndedError       EndedBy = "internal_error"
)

// Run identifies the walk.
type Run struct {
	ID            string  `json:"id"`
	CorrelationID string  `json:"correlation_id"`
	StartedAt     Time    `json:"started_at"`
	EndedAt       Time    `json:"ended_at,omitzero"`
	DurationMS    Millis  `json:"duration_ms"`
	EndedBy       EndedBy `json:"ended_by"`
	ToolVersion   string  `json:"tool_version"`
	RulesVersion  string  `json:"rules_version"`
	// LastGoodAt is the end of the newest earlier walk of the same subject that passed, from the history.
	LastGoodAt Time `json:"last_good_at,omitzero"`
}

// Subject is what the walk is about. Identities are as the operator gave them; those discovered by probes are in facts,
// and the judge copies them here.
type Subject struct {
	NodeID         string `json:"node_id,omitempty"`
	NodeHost       string `json:"node_host,omitempty"`
	NodeInstanceID string `json:"node_instance_id,omitempty"`
	AllocationID   string `json:"allocation_id,omitempty"`
	// of the failing request, as the operator named it
	SessionID string `json:"session_id,omitempty"`
	// of the failing request, as the operator named it
	CorrelationID      string `json:"correlation_id,omitempty"`
	WorkflowID         string `json:"workflow_id,omitempty"`
	EnvironmentProfile string `json:"environment_profile,omitempty"`
	Provider           string `json:"provider,omitempty"`
	PrivateIP          string `json:"private_ip,omitempty"`
	// profile values by profile key, e.g. node_runtime_api_url
	Expected map[string]string `json:"expected,omitempty"`
}

// Plan is what the walk set out to do, complete enough to judge budgets and thresholds without the profile.
type Plan struct {
	Profile string `json:"profile,omitempty"`
	// command that repeats the walk, if profile and node alone do not identify it
	Command string `json:"command,omitempty"`
	// the profile allows tokens and cookies over http:// to other machines
	InsecureHTTP bool             `json:"insecure_http,omitempty"`
	Policy       map[string]int64 `json:"policy"` // catalogue keys, e.g. node.heartbeat_stale_after_seconds
	Hops         []PlannedHop     `json:"hops"`
}

// PlannedHop is a hop of the plan. Skip is why it is not run, empty if it is.
type PlannedHop struct {
	ID       HopID    `json:"id"`
	Vantages []string `json:"vantages"`
	BudgetMS int64    `json:"budget_ms"`
	Skip     string   `json:"skip,omitempty"`
	Steps    []string `json:"steps"`
	// Left is why steps are left out of the plan, by step name.
	Left map[string]string `json:"left,omitempty"`
	// Absent is what this platform lacks and the hop needs: a path or a field in the profile's mapping. The hop is then
	// not judged, and hops that depend on it do not wait for it.
	Absent string `json:"absent,omitempty"`
	// Check is the check that the profile declares, of which this is the hop.
	Check *Check `json:"check,omitempty"`
}

// VantageInfo is a place from which probes run. Missing is why it was not available.
type VantageInfo struct {
	ID            string `json:"id"` // operator | node | platform
	How           string `json:"how"`
	Host          string `json:"host,omitempty"`
	Resolver      string `json:"resolver,omitempty"`
	ClockOffsetMS *int64 `json:"clock_offset_ms,omitempty" bounded:"signed"`
	Missing       string `json:"missing,omitempty"`
}

// Finding is a judge's result about one hop.
type Finding struct {
	Status   Status   `json:"status"`
	Signal   Signal   `json:"signal,omitempty"`
	Failure  Failure  `json:"failure,omitempty"`
	Text     string   `json:"text,omitempty"`
	Because  string   `json:"because,omitempty"`  // for skipped, not_reached and inconclusive: the reason
	Evidence []string `json:"evidence,omitempty"` // fact ids, the deciding one first
	// Culprit names the one thing at fault (a file, a resolver, an address), if the facts identify it. Two failing hops
	// with the same culprit are one finding.
	Culprit string `json:"culprit,omitempty"`
	// Direct reports that the deciding fact shows the fault at this very hop, so no other failing hop explains it.
	Direct bool `json:"direct,omitempty"`
	// Reason is the operator reason, if the facts give a more specific one than the signal's row.
	Reason ReasonCode `json:"reason,omitempty"`
	// Side is where the fault is, for a signal that can have it in several places. It decides whom to call.
	Side Side `json:"side,omitempty"`
	// Cause is the error of this step as the node or the platform recorded it under this walk's correlation id.
	Cause string `json:"cause,omitempty"`
	// Lack is what was missing for a decision, if an inconclusive finding's judge can tell.
	Lack Lack `json:"lack,omitempty"`
}

// HopResult is the result of one hop.
type HopResult struct {
	ID      HopID  `json:"id"`
	Title   string `json:"title"`
	Layer   Layer  `json:"layer"`
	Vantage string `json:"vantage"` // operator | node | operator+node | operator+platform
	Finding
	Also       []Finding    `json:"also,omitempty"` // further findings of the same hop
	DurationMS Millis       `json:"duration_ms,omitempty"`
	BudgetMS   int64        `json:"budget_ms"`
	Steps      []StepResult `json:"steps,omitempty"`
}

// StepResult is one timed step of a hop.
type StepResult struct {
	Name       string  `json:"name"`
	Vantage    string  `json:"vantage"`
	Status     Status  `json:"status"`
	Failure    Failure `json:"failure,omitempty"`
	Because    string  `json:"because,omitempty"`
	DurationMS Millis  `json:"duration_ms,omitempty"`
	Fact       string  `json:"fact,omitempty"`
}

// Outcome is the verdict in one word.
type Outcome string

const (
	OutcomePass         Outcome = "pass"
	OutcomeWarn         Outcome = "warn"
	OutcomeFail         Outcome = "fail"
	OutcomeInconclusive Outcome = "inconclusive"
)

// Verdict is the result of the walk as a whole.
type Verdict struct {
	Outcome        Outcome    `json:"outcome"`
	FirstFailedHop HopID      `json:"first_failed_hop,omitempty"`
	Blame          *Blame     `json:"blame,omitempty"`
	Symptoms       []HopID    `json:"symptoms,omitempty"`
	Reason         ReasonCode `json:"reason"`
	UserState      UserState  `json:"user_state"`
	Owner          string     `json:"owner,omitempty"`
	Owners         Owners     `json:"owners,omitempty"`   // whom to call, in order; owner is the same list as one string
	Recovery       []string   `json:"recovery,omitempty"` // steps with this node's values, and commands to paste
	// the steps of recovery, with their commands as separate fields
	Steps       []NextStep `json:"steps,omitempty"`
	RepairProof string     `json:"repair_proof,omitempty"` // the command that verifies the repair
	Runbook     string     `json:"runbook,omitempty"`
	Layer       Layer      `json:"layer,omitempty"`
	Confidence  Confidence `json:"confidence,omitempty"`
	Proof       *Proof     `json:"proof,omitempty"`
	// Unproven is why no pair of probes that differ in one input proves the cause; see Proof.
	Unproven string `json:"unproven,omitempty"`
	// Observation is the fact that holds the cause itself; a verdict may have a proof as well.
	Observation   *Observation `json:"observation,omitempty"`
	RuledOut      []string     `json:"ruled_out,omitempty"`
	Severity      string       `json:"severity,omitempty"` // P0 | P1 | P2
	OtherFindings []Blame      `json:"other_findings,omitempty"`
	// Because is why a walk without a failing hop is inconclusive, if a finding gives the reason. Owner and Recovery
	// then belong to that reason.
	Because string `json:"because,omitempty"`
}

// Blame is a failing hop that no other hop explains. With the status inconclusive, it is a hop that did not answer
// although other hops need it: what failed later may all be its consequence.
type Blame struct {
	Hop         HopID        `json:"hop"`
	Status      Status       `json:"status,omitempty"` // inconclusive; absent: fail
	Signal      Signal       `json:"signal"`
	Failure     Failure      `json:"failure,omitempty"`
	Text        string       `json:"text,omitempty"`
	Owner       string       `json:"owner,omitempty"`
	Owners      Owners       `json:"owners,omitempty"` // as in Verdict
	Symptoms    []HopID      `json:"symptoms,omitempty"`
	Confidence  Confidence   `json:"confidence,omitempty"`
	Proof       *Proof       `json:"proof,omitempty"`
	Unproven    string       `json:"unproven,omitempty"` // as in Verdict
	Observation *Observation `json:"observation,omitempty"`
}

// Observation is the measured cause: a field of a fact whose value is the fault.
type Observation struct {
	Fact  string `json:"fact"`
	Field string `json:"field"` // path in the fact, dotted: unit.active
	Text  string `json:"text"`
}

// Proof is a failing and a passing fact whose requests differ in exactly the named input. Each request was repeated
// several times, alternating with the other, and always had the same result. For a request that sometimes succeeds, the
// two do not differ: see ChangedNothing.
type Proof struct {
	Failing string `json:"failing"`
	Passing string `json:"passing"`
	Changed string `json:"changed"`
	Text    string `json:"text,omitempty"`
	Failed  int    `json:"failed,omitempty"` // how often the failing request failed, and the passing request passed
	Passed  int    `json:"passed,omitempty"`
}

// ChangedNothing is Proof.Changed for one request that sometimes failed and sometimes passed.
const ChangedNothing = "nothing"

// Dashboard is the verdict in the runbook's dashboard vocabulary.
type Dashboard struct {
	// healthy | stale | auth_failed | api_unreachable | task_result_failed | unknown
	NodeAgentStatus string `json:"node_agent_status"`
	// token_ready | browser_ws_ready | terminal_open_sent | node_stream_connected | pty_ready | failed
	TerminalReadiness         string `json:"terminal_readiness,omitempty"`
	LastFailureReason         Signal `json:"last_failure_reason,omitempty"`
	CorrelationID             string `json:"correlation_id"`
	ExpectedTerminalEndpoint  string `json:"expected_terminal_endpoint,omitempty"`
	LastSuccessfulPreflightAt Time   `json:"last_successful_preflight_at,omitzero"`
}

// EvidenceLine is one event that the platform recorded under a correlation id. Of its detail only the error is kept, as
// one bounded line; the rest stays on the platform.
type EvidenceLine struct {
	At            Time   `json:"at"`
	Kind          string `json:"kind"`
	CorrelationID string `json:"correlation_id,omitempty"`
	NodeID        string `json:"node_id,omitempty"`
	InstanceID    string `json:"node_instance_id,omitempty"` // the node's at that time
	AllocationID  string `json:"allocation_id,omitempty"`
	WorkflowID    string `json:"workflow_id,omitempty"`
	SessionID     string `json:"session_id,omitempty"`
	TaskID        string `json:"task_id,omitempty"`
	Code          string `json:"code,omitempty"`  // error code of the event
	Error         string `json:"error,omitempty"` // error message of the event
}

// Redaction counts what was removed from this report.
type Redaction struct {
	Rules  []string       `json:"rules"`
	Counts map[string]int `json:"counts"`
}
