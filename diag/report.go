package diag

// APIVersion and KindPreflight head every report.
const (
	APIVersion    = "gpuaasctl/v1"
	KindPreflight = "PreflightReport"
)

// FactsBlame is Report.FactsKept of a reduced report.
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
	// FactsKept is "blame" where facts has only what the verdict rests on: such a report is shown as it was judged, and
	// neither judged again nor compared.
	FactsKept string `json:"facts_kept,omitempty"`
	// what the platform recorded under the correlation ids, in time order
	Evidence []EvidenceLine `json:"evidence,omitempty"`
	// EvidenceCut reports that the platform has older evidence than is here.
	EvidenceCut bool    `json:"evidence_cut,omitempty"`
	Verdict     Verdict `json:"verdict"`
	// Classification is derived from all evidence about the node; Verdict's reason and user state are copied from it.
	Classification *Classification `json:"classification,omitempty"`
	Dashboard      Dashboard       `json:"dashboard"`
	Diff           *Diff           `json:"diff,omitempty"` // against a baseline, where one was asked for
	// Replayed is present where the verdict of a replay's rules differs from the verdict in the walk's own report.
	Replayed  *Replayed `json:"replayed,omitempty"`
	Redaction Redaction `json:"redaction"`
}

// Replayed reports what was judged before, where a replay judges the same facts otherwise.
type Replayed struct {
	Stated StatedVerdict `json:"stated"`
}

// StatedVerdict is the part of a verdict by which two are compared, and the rules that gave it.
type StatedVerdict struct {
	Outcome        Outcome    `json:"outcome"`
	FirstFailedHop HopID      `json:"first_failed_hop,omitempty"`
	Hop            HopID      `json:"hop,omitempty"` // blamed, as are Signal and Failure
	Signal         Signal     `json:"signal,omitempty"`
	Failure        Failure    `json:"failure,omitempty"`
	Confidence     Confidence `json:"confidence,omitempty"`
	Reason         ReasonCode `json:"reason"`
	RulesVersion   string     `json:"rules_version"`
}

// EndedBy reports how a walk ended. Only completed can be a pass.
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
	// LastGoodAt is the end of the newest earlier walk of the same subject that ended well, by the history.
	LastGoodAt Time `json:"last_good_at,omitzero"`
}

// Subject is what was looked at. Identities are as given by the operator; those learnt on the way are in facts,
// and copied here by the judge.
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

// Plan is what the walk set out to do: enough for a judge to know budgets and thresholds without the profile.
type Plan struct {
	Profile string `json:"profile,omitempty"`
	// the same walk again, to paste, where profile and node alone do not make it
	Command string           `json:"command,omitempty"`
	Policy  map[string]int64 `json:"policy"` // catalogue keys, e.g. node.heartbeat_stale_after_seconds
	Hops    []PlannedHop     `json:"hops"`
}

// PlannedHop is a hop of the plan. Skip is the reason not to run it, empty to run it.
type PlannedHop struct {
	ID       HopID    `json:"id"`
	Vantages []string `json:"vantages"`
	BudgetMS int64    `json:"budget_ms"`
	Skip     string   `json:"skip,omitempty"`
	Steps    []string `json:"steps"`
	// Left is why steps are left out of the plan, by step.
	Left map[string]string `json:"left,omitempty"`
	// Absent is what this platform does not have, and without which the hop is not judged: no path or no field in the
	// profile's mapping. Hops that need this one do not wait for it.
	Absent string `json:"absent,omitempty"`
}

// VantageInfo is a place from which was measured. Missing is why it was not available.
type VantageInfo struct {
	ID            string `json:"id"` // operator | node | platform
	How           string `json:"how"`
	Host          string `json:"host,omitempty"`
	Resolver      string `json:"resolver,omitempty"`
	ClockOffsetMS *int64 `json:"clock_offset_ms,omitempty"`
	Missing       string `json:"missing,omitempty"`
}

// Finding is a judge's result about one hop.
type Finding struct {
	Status   Status   `json:"status"`
	Signal   Signal   `json:"signal,omitempty"`
	Failure  Failure  `json:"failure,omitempty"`
	Text     string   `json:"text,omitempty"`
	Because  string   `json:"because,omitempty"`  // for skipped, not_reached and inconclusive: why
	Evidence []string `json:"evidence,omitempty"` // fact ids, the deciding one first
	// Culprit names the one thing at fault (a file, a resolver, an address), where the facts name it. Two failing
	// hops with the same culprit are one finding.
	Culprit string `json:"culprit,omitempty"`
	// Direct reports that the deciding fact shows the fault at this very hop, so that no other failing hop explains it.
	Direct bool `json:"direct,omitempty"`
	// Reason is the operator reason, where the facts know it better than the signal's own row does.
	Reason ReasonCode `json:"reason,omitempty"`
	// Side is where the fault is, where one signal can have it in several places: it decides who is called.
	Side Side `json:"side,omitempty"`
	// Cause is what the node or the platform wrote down, under this walk's own id, as the error of this very step.
	Cause string `json:"cause,omitempty"`
	// Lack is what an inconclusive finding lacked, where its judge knows.
	Lack Lack `json:"lack,omitempty"`
}

// HopResult is a hop in the report.
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

// Outcome is the verdict in a word.
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
	Owners         Owners     `json:"owners,omitempty"`       // who is called, the first one first; owner has all in one line
	Recovery       []string   `json:"recovery,omitempty"`     // steps with this node's values, commands to paste
	Steps          []NextStep `json:"steps,omitempty"`        // those of recovery, with their commands apart
	RepairProof    string     `json:"repair_proof,omitempty"` // the command that proves the repair
	Runbook        string     `json:"runbook,omitempty"`
	Layer          Layer      `json:"layer,omitempty"`
	Confidence     Confidence `json:"confidence,omitempty"`
	Proof          *Proof     `json:"proof,omitempty"`
	// Unproven is why a pair of probes that differ in one input does not prove the cause; see Proof.
	Unproven string `json:"unproven,omitempty"`
	// Observation is the fact that holds the cause itself; it may be there beside a proof.
	Observation   *Observation `json:"observation,omitempty"`
	RuledOut      []string     `json:"ruled_out,omitempty"`
	Severity      string       `json:"severity,omitempty"` // P0 | P1 | P2
	OtherFindings []Blame      `json:"other_findings,omitempty"`
	// Because is why a walk without a failing hop is inconclusive, where a finding has the reason; Owner and Recovery
	// then apply to that reason.
	Because string `json:"because,omitempty"`
}

// Blame is a failing hop that no other hop explains; or, with the status inconclusive, a hop that did not answer
// although others need it: what failed later may all follow from that.
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

// Observation is the cause as it was measured: a field of a fact whose value is the fault.
type Observation struct {
	Fact  string `json:"fact"`
	Field string `json:"field"` // of the fact, dotted: unit.active
	Text  string `json:"text"`
}

// Proof is a failing and a passing fact whose requests differ in exactly the named input. Each was asked several times,
// in turn, and always came out alike. Of a question that was answered now and then the two differ in nothing: see
// ChangedNothing.
type Proof struct {
	Failing string `json:"failing"`
	Passing string `json:"passing"`
	Changed string `json:"changed"`
	Text    string `json:"text,omitempty"`
	Failed  int    `json:"failed,omitempty"` // how often the failing question failed, and the passing one passed
	Passed  int    `json:"passed,omitempty"`
}

// ChangedNothing is Proof.Changed of one question that was answered now and then.
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

// EvidenceLine is one thing that the platform wrote down under a correlation id. Of its detail only the error is kept,
// in one bounded line; the rest stays on the platform.
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
	Code          string `json:"code,omitempty"`  // of the reported error
	Error         string `json:"error,omitempty"` // that error's message
}

// Redaction reports what was taken out of this report.
type Redaction struct {
	Rules  []string       `json:"rules"`
	Counts map[string]int `json:"counts"`
}
