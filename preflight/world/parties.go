package world

import (
	"cmp"
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// Operator is the machine that the walk was started on, and its path to the platform.
type Operator struct {
	Sends      Known `json:"sends"`       // its own resources and policies let requests out
	SteadyPath Known `json:"steady_path"` // nothing was lost on the way
}

func operatorOf(c *hop.Case) Operator {
	path, answered := steadyPath(c, hop.Operator)
	own := firstOf(c, hop.Operator, func(f *diag.Fact) bool { return ownMachineFinding(c, f) != nil })
	return Operator{
		Sends:      either(own == nil && answered != nil, own != nil, cmp.Or(own, answered)),
		SteadyPath: path,
	}
}

// steadyPath tells whether nothing was lost on a vantage's path, with a fact that a remote host answered.
func steadyPath(c *hop.Case, vantage string) (path Known, answered *diag.Fact) {
	answered = firstOf(c, vantage, func(f *diag.Fact) bool { return AnsweredRemotely(f) && !reading.Loopback(f) })
	lossy := LossSeen(c, vantage) != ""
	return either(answered != nil && !lossy, lossy, answered), answered
}

// firstOf returns the first fact of a vantage, by id, that satisfies is; nil if none does.
func firstOf(c *hop.Case, vantage string, is func(*diag.Fact) bool) (first *diag.Fact) {
	for f := range c.All() {
		if f.Vantage == vantage && is(f) && (first == nil || f.ID < first.ID) {
			first = f
		}
	}
	return first
}

// Platform is the control plane behind its API.
type Platform struct {
	AnswersOperator Known `json:"answers_operator"`
	AnswersNode     Known `json:"answers_node"`
	StaysUp         Known `json:"stays_up"`   // it answered until the end of the walk
	KnowsNode       Known `json:"knows_node"` // its read model has the node
}

func platformOf(c *hop.Case) Platform {
	page, auth := c.Fact(diag.HopControlPlaneAccess, hop.StepHealthz), c.Fact(diag.HopControlPlaneAccess, hop.StepAuth)
	reached := func(f *diag.Fact) bool { return f != nil && platformAnswered(f) }
	silent := func(f *diag.Fact) bool { return f != nil && (reading.GotNoAnswer(f) || edgeAlone(f)) }
	side, by := nodeHears(c)
	read := LastRead(c)
	if !reading.Good(read) && NodeKnown(c) != "" {
		read = cmp.Or(c.Fact(diag.HopNodeTaskRoundtrip, hop.StepTask), c.Fact(diag.HopAllocationBinding, hop.StepAllocation))
	}
	end := platformGone(c)
	return Platform{
		AnswersOperator: either(reached(page) || reached(auth), silent(page) || silent(auth), page, auth),
		AnswersNode:     either(side == AnsweredSide, side == SilentSide, by),
		StaysUp:         either(!end.gone && end.by != nil, end.gone, end.by),
		KnowsNode:       either(NodeKnown(c) != "" || (reading.Good(read) && OfANode(c)), NodeUnknown(c), read),
	}
}

// Ingress is the listener of the node API, which asks for certificates.
type Ingress struct {
	AsksForCertificate Known `json:"asks_for_certificate"`
	AdmitsNode         Known `json:"admits_node"`
	TrustsSigningCA    Known `json:"trusts_signing_ca"` // as the platform itself states
}

func ingressOf(c *hop.Case) Ingress {
	wait := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)
	asking := wait
	for _, family := range [...][]*hop.RequestRuns{
		hop.FamilyOf(c, hop.FactID(diag.HopNodeRecoveryStatus, hop.StepTaskWait)),
		hop.FamilyOf(c, hop.FactID(diag.HopNodeRuntimeAPI, hop.StepReach)),
	} {
		for _, q := range family { // also a counter-probe shows it
			if f := q.First(); f.Vantage == hop.Node && asksFor(f) && !asksFor(asking) {
				asking = f
			}
		}
	}
	never := func(f *diag.Fact) bool { return f != nil && f.Failure == diag.MTLSNotRequested }
	trust := c.Fact(diag.HopControlPlaneAccess, hop.StepAuth)
	signing, ingress := TrustedCAs(c)
	both := signing != "" && ingress != ""
	return Ingress{
		AsksForCertificate: either(asksFor(asking), never(wait), asking),
		AdmitsNode:         either(ingressAccepts(c), wait != nil && reading.RefusesCert(wait), wait),
		TrustsSigningCA:    either(both && signing == ingress, both && signing != ingress, trust, wait),
	}
}

// Identity is the node's certificate.
type Identity struct {
	Valid          Known `json:"valid"`            // by its own files: dates, key, node
	KnownToGateway Known `json:"known_to_gateway"` // its issuer is
}

func identityOf(c *hop.Case) Identity {
	id, stream := c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity),
		c.Fact(diag.HopNodeTerminalReachability, hop.StepStream)
	return Identity{
		Valid:          either(id.Passed() && !BadOwnCert(c), shows(id) && BadOwnCert(c), id),
		KnownToGateway: either(GatewayAccepts(c), ForeignIssuer(c), stream),
	}
}

// Node is the machine with the GPUs.
type Node struct {
	Login       Known `json:"login"` // SSH lets the operator in
	TakesWrites Known `json:"takes_writes"`
	RightTime   Known `json:"right_time"`
	SteadyPath  Known `json:"steady_path"`
}

func nodeOf(c *hop.Case) Node {
	ssh, clock := c.Fact(diag.HopNodeOpsAccess, hop.StepSSH), c.Fact(diag.HopNodeReadiness, hop.StepClock)
	disk, full := writtenTo(c)
	path, _ := steadyPath(c, hop.Node)
	return Node{
		Login:       either(ssh.Passed(), shows(ssh) && !ssh.Passed(), ssh),
		TakesWrites: either(full == nil && disk.Passed() && disk.Request.Write > 0, full != nil, cmp.Or(full, disk)),
		RightTime:   either(clock.Passed(), clock != nil && clock.Failure == diag.ClockSkew, clock),
		SteadyPath:  path,
	}
}

// writtenTo returns the fact of the test write, and that of a file system which takes none. A root file system may be
// read-only by design.
func writtenTo(c *hop.Case) (disk, full *diag.Fact) {
	disk = c.Fact(diag.HopNodeReadiness, hop.StepDisk)
	for _, f := range [...]*diag.Fact{disk, c.Fact(diag.HopNodeReadiness, hop.StepRoot)} {
		switch {
		case f == nil:
		case f.Failure == diag.DiskFull, f.Failure == diag.DiskInodes, f == disk && f.Failure == diag.DiskReadOnly:
			full = f
		}
	}
	return disk, full
}

// Agent is gpuaas-agent on the node.
type Agent struct {
	Runs       Known `json:"runs"`        // its unit does, as systemd reports it
	Heard      Known `json:"heard"`       // the platform's last contact with it is not stale
	Answers    Known `json:"answers"`     // it did a no-op in this walk
	AsProfiled Known `json:"as_profiled"` // it uses the profile's API
}

func agentOf(c *hop.Case) Agent {
	unit, task := c.Fact(diag.HopNodeReadiness, hop.StepProcess), c.Fact(diag.HopNodeTaskRoundtrip, hop.StepTask)
	env := c.Fact(diag.HopNodeRecoveryStatus, hop.StepProfile)
	down := agentDown(c)
	if later := c.Fact(diag.HopGatewayNodeStream, stepAgent); later != nil && later.Unit != nil {
		unit, down = later, !later.Passed()
	}
	_, dated := ContactAge(c)
	waited := task != nil && WaitedFor(task) && TaskStatus(c) != ""
	want := c.Expected("node_runtime_api_url") != "" && env != nil && env.Env != nil
	return Agent{
		Runs:       either(unit.Passed() && !down, down, unit),
		Heard:      either(ContactFresh(c), dated && !ContactFresh(c), LastRead(c)),
		Answers:    either(AgentAnswered(c) != "", waited && AgentAnswered(c) == "", task),
		AsProfiled: either(AsProfiled(c), want && !AsProfiled(c), env),
	}
}

// Gateway is the terminal gateway.
type Gateway struct {
	AcceptsNode Known `json:"accepts_node"` // its certificate
	SeesBrowser Known `json:"sees_browser"` // in its own row of this walk's session
}

func gatewayOf(c *hop.Case) Gateway {
	stream, row := c.Fact(diag.HopNodeTerminalReachability, hop.StepStream),
		c.Fact(diag.HopTerminalOpenTask, hop.StepSessionRow)
	came := !c.Time(diag.HopTerminalOpenTask, hop.StepSessionRow, "session.browser_connected_at").IsZero()
	return Gateway{
		AcceptsNode: either(GatewayAccepts(c), stream != nil && reading.RefusesCert(stream), stream),
		SeesBrowser: either(came, BrowserNeverReachedGateway(c), row),
	}
}

// Session is the terminal session that the walk opened.
type Session struct {
	Accepted  Known `json:"accepted"`          // the browser's WebSocket
	HasStream Known `json:"has_stream"`        // the node's, in the gateway's row
	HasShell  Known `json:"has_shell"`         // in the gateway's row
	Computes  Known `json:"computes"`          // a shell computed the walk's nonce
	Decided   Known `json:"ended_by_decision"` // of the platform
}

func sessionOf(c *hop.Case) Session {
	session, row := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession), c.Fact(diag.HopTerminalOpenTask,
		hop.StepSessionRow)
	read := reading.Status(row) == 200
	return Session{
		Accepted:  either(SessionAccepted(c), shows(session) && !SessionAccepted(c), session),
		HasStream: either(StreamCame(c), read && !reading.Unasked(row, "session.node_stream_connected_at"), row),
		HasShell:  either(ShellReady(c), read && !reading.Unasked(row, "session.pty_ready_at"), row),
		Computes:  either(ShellComputed(c), shows(session) && !ShellComputed(c), session),
		Decided:   either(Decided(c) != "", session != nil || read, session, row),
	}
}

// Workload is the allocation's program, and the route to it.
type Workload struct {
	Runs         Known `json:"runs"`
	PortAnswers  Known `json:"port_answers"`   // on the node itself
	OpenToOthers Known `json:"open_to_others"` // its unit itself listens at an address that other machines reach
	RouteAnswers Known `json:"route_answers"`
}

func workloadOf(c *hop.Case) Workload {
	unit, port := c.Fact(diag.HopAppRuntimeLiveness, hop.StepUnit), c.Fact(diag.HopAppRuntimeLiveness, hop.StepPort)
	route := c.Fact(diag.HopAppUserRoute, hop.StepRoute)
	fails := func(f *diag.Fact) bool {
		return shows(f) && !f.Passed() && (reading.Status(f) < 400 || reading.Status(f) >= 500)
	}
	stopped := shows(unit) && !unit.Passed() && !InTransition(unit)
	return Workload{
		Runs:         either(unit.Passed(), stopped, unit),
		PortAnswers:  either(port.Passed(), fails(port), port),
		OpenToOthers: either(ListensAt(unit, AppPort(c)) && loopbackOnly(c) == "", loopbackOnly(c) != "", unit),
		RouteAnswers: either(route.Passed(), fails(route), route),
	}
}

// GPUs are the node's, as the platform or this tool judges them.
type GPUs struct {
	Judged  Known `json:"judged"`
	Healthy Known `json:"healthy"`
}

func gpusOf(c *hop.Case) GPUs {
	a := AdmissionIn(c)
	f := c.Fact(diag.HopGPUHealth, hop.StepAdmission)
	if f == nil {
		f = c.Fact(diag.HopGPUHealth, hop.StepGPUJudged)
	}
	judged := a != nil && a.Known() && a.Health != reading.GPUUnknown
	return GPUs{
		Judged:  either(judged, a != nil && !judged, f),
		Healthy: either(judged && a.Health == reading.GPUHealthy, judged && a.Health != reading.GPUHealthy, f),
	}
}

// AdmissionIn returns what the walk read about the node's GPUs; nil if it read nothing.
func AdmissionIn(c *hop.Case) *reading.GPUAdmission { return *gpuMemo.Of(c) }

var gpuMemo = hop.NewMemo(func(c *hop.Case) *reading.GPUAdmission {
	id := diag.HopGPUHealth
	if a := reading.HeadOf(c.Subject.NodeID, c.Fact(id, hop.StepAdmission)); a != nil {
		return a
	}
	return reading.JudgedHere(c.Subject.NodeID, c.Fact(id, hop.StepGPUJudged), c.Fact(id, hop.StepGPUNode))
})

// DecidingXID returns the XID or SXID that decided the GPUs' health, "" if something else did.
func DecidingXID(c *hop.Case) string {
	if a := AdmissionIn(c); a != nil {
		return a.Decided.XID()
	}
	return ""
}

// Unjudged is the finding if the node's GPUs are not judged, or the judgement has no effect.
func Unjudged(f *diag.Fact, format string, args ...any) diag.Finding {
	return diag.Finding{Status: diag.StatusSkipped, Because: fmt.Sprintf(format, args...), Evidence: []string{f.ID}}
}

// MeasuredOnGPU returns the cause of an unhealthy GPU if the driver itself reports it: an XID, a recovery action, an
// error counter. A count that lacks a GPU does not show the cause.
func MeasuredOnGPU(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	return gpuReports(f, reading.HeadOf("", f))
}

// MeasuredHere is MeasuredOnGPU for this tool's own judgement.
func MeasuredHere(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	return gpuReports(f, reading.JudgedHere("", f, nil))
}

func gpuReports(f *diag.Fact, a *reading.GPUAdmission) (*diag.Fact, string) {
	if a == nil || a.Decided == nil || (a.Decided.Subject.About != "event" && a.Decided.Subject.About != "gpu") {
		return nil, ""
	}
	return f, "the node reports " + a.Decided.Words()
}
