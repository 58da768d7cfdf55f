package world

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// Known is what is known of one property: yes, no, or not measured, which is neither.
type Known struct {
	is Answer
	of [2]*diag.Fact // what it rests on
}

// Answer is the value of a property.
type Answer string

// The answers.
const (
	NotMeasured Answer = "not_measured"
	No          Answer = "no"
	Yes         Answer = "yes"
)

// Yes reports whether the property is known to hold.
func (k Known) Yes() bool { return k.is == Yes }

// No reports whether the property is known not to hold.
func (k Known) No() bool { return k.is == No }

// Is returns the answer.
func (k Known) Is() Answer {
	if k.is == "" {
		return NotMeasured
	}
	return k.is
}

// RestsOn returns the ids of the facts that the answer rests on.
func (k Known) RestsOn() (ids []string) {
	for _, f := range k.of {
		if f != nil {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

// MarshalJSON writes the answer and what it rests on.
func (k Known) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Is      Answer   `json:"is"`
		RestsOn []string `json:"rests_on,omitempty"`
	}{k.Is(), k.RestsOn()})
}

// either is yes or no, if one of them is shown, and rests on these facts; shown by neither, the property was not
// measured.
func either(yes, no bool, of ...*diag.Fact) Known {
	k := Known{}
	switch {
	case yes:
		k.is = Yes
	case no:
		k.is = No
	default:
		return k
	}
	copy(k.of[:], of)
	return k
}

// KindWorld is the kind of a World document.
const KindWorld = "PreflightWorld"

// World is what the facts of one walk show about its parties. It is computed from facts alone: no hop is judged for it.
type World struct {
	diag.Head

	Operator Operator `json:"operator"`
	Platform Platform `json:"platform"`
	Ingress  Ingress  `json:"ingress"`
	Identity Identity `json:"identity"`
	Node     Node     `json:"node"`
	Agent    Agent    `json:"agent"`
	Gateway  Gateway  `json:"gateway"`
	Session  Session  `json:"session"`
	Workload Workload `json:"workload"`
	GPUs     GPUs     `json:"gpus"`
}

// Of returns the world of a case.
func Of(c *hop.Case) *World {
	return &World{
		Head: diag.NewHead(KindWorld), Operator: operatorOf(c), Platform: platformOf(c), Ingress: ingressOf(c),
		Identity: identityOf(c), Node: nodeOf(c), Agent: agentOf(c), Gateway: gatewayOf(c), Session: sessionOf(c),
		Workload: workloadOf(c), GPUs: gpusOf(c),
	}
}

// Property is one property of a party.
type Property struct {
	Party, Name string // as in JSON
	Known
}

// Properties returns all properties, in the order of the struct.
func (w *World) Properties() (all []Property) {
	v := reflect.ValueOf(w).Elem()
	for i := range v.NumField() {
		party := v.Field(i)
		if v.Type().Field(i).Anonymous {
			continue
		}
		for k := range party.NumField() {
			all = append(all, Property{jsonName(v.Type().Field(i)), jsonName(party.Type().Field(k)),
				party.Field(k).Interface().(Known)})
		}
	}
	return all
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// Operator is the machine that the walk was started on, and its path to the platform.
type Operator struct {
	Sends      Known `json:"sends"`       // its own resources and policies let requests out
	SteadyPath Known `json:"steady_path"` // nothing was lost on the way
}

func operatorOf(c *hop.Case) Operator {
	own, answered := (*diag.Fact)(nil), (*diag.Fact)(nil)
	for f := range c.All() {
		if f.Vantage != hop.Operator {
			continue
		}
		if ownMachineFinding(c, f) != nil && (own == nil || f.ID < own.ID) {
			own = f
		}
		if AnsweredRemotely(f) && (answered == nil || f.ID < answered.ID) {
			answered = f
		}
	}
	lossy := LossSeen(c, hop.Operator) != ""
	o := Operator{SteadyPath: either(answered != nil && !lossy, lossy, answered)}
	if own != nil {
		o.Sends = either(false, true, own)
	} else {
		o.Sends = either(answered != nil, false, answered)
	}
	return o
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
	reached := func(f *diag.Fact) bool { return f != nil && reading.ReachedServer(f) && !reading.GotNoAnswer(f) }
	silent := func(f *diag.Fact) bool { return f != nil && reading.GotNoAnswer(f) }
	hears := NodeHears(c)
	read := LastRead(c)
	end := platformGone(c)
	return Platform{
		AnswersOperator: either(reached(page) || reached(auth), silent(page) || silent(auth), page, auth),
		AnswersNode: either(hears == AnsweredSide, hears == SilentSide,
			c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach), c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)),
		StaysUp:   either(!end.gone && end.by != nil, end.gone, end.by),
		KnowsNode: either(NodeKnown(c) != "" || (reading.Good(read) && OfANode(c)), NodeUnknown(c), read),
	}
}

// Ingress is the listener of the node API, which asks for certificates.
type Ingress struct {
	AsksForCertificate Known `json:"asks_for_certificate"`
	AdmitsNode         Known `json:"admits_node"`
	TrustsSigningCA    Known `json:"trusts_signing_ca"` // as the platform itself states
}

func ingressOf(c *hop.Case) Ingress {
	wait, reach := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait), c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach)
	asks := func(f *diag.Fact) bool { return f != nil && reading.AsksForCert(f) }
	never := func(f *diag.Fact) bool { return f != nil && f.Failure == diag.MTLSNotRequested }
	trust := c.Fact(diag.HopControlPlaneAccess, hop.StepAuth)
	signing, ingress := TrustedCAs(c)
	both := signing != "" && ingress != ""
	return Ingress{
		AsksForCertificate: either(asks(wait) || asks(reach), never(wait), wait, reach),
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
		Valid:          either(id.Passed() && !BadOwnCert(c), BadOwnCert(c), id),
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
	disk := c.Fact(diag.HopNodeReadiness, hop.StepDisk)
	full := disk != nil && (disk.Failure == diag.DiskFull || disk.Failure == diag.DiskInodes ||
		disk.Failure == diag.DiskReadOnly)
	var answered *diag.Fact
	for f := range c.All() {
		if f.Vantage == hop.Node && AnsweredRemotely(f) && (answered == nil || f.ID < answered.ID) {
			answered = f
		}
	}
	lossy := LossSeen(c, hop.Node) != ""
	return Node{
		Login:       either(ssh.Passed(), ssh != nil && !ssh.Passed(), ssh),
		TakesWrites: either(disk.Passed() && disk.Request.Write > 0, full, disk),
		RightTime:   either(clock.Passed(), clock != nil && clock.Failure == diag.ClockSkew, clock),
		SteadyPath:  either(answered != nil && !lossy, lossy, answered),
	}
}

// Agent is gpuaas-agent on the node.
type Agent struct {
	Runs           Known `json:"runs"`            // its unit does, as systemd reports it
	Heard          Known `json:"heard"`           // the platform's last contact with it is not stale
	Answers        Known `json:"answers"`         // it did a no-op in this walk
	AsProfiled     Known `json:"as_profiled"`     // it uses the profile's API
	HeartbeatsPass Known `json:"heartbeats_pass"` // its own record has no heartbeat that is refused now
}

func agentOf(c *hop.Case) Agent {
	unit, task := c.Fact(diag.HopNodeReadiness, hop.StepProcess), c.Fact(diag.HopNodeTaskRoundtrip, hop.StepTask)
	env, record := c.Fact(diag.HopNodeRecoveryStatus, hop.StepProfile), c.RecordFact()
	_, dated := ContactAge(c)
	waited := task != nil && WaitedFor(task) && TaskStatus(c) != ""
	want := c.Expected("node_runtime_api_url") != "" && env != nil && env.Env != nil
	return Agent{
		Runs:           either(unit.Passed(), agentDown(c), unit),
		Heard:          either(ContactFresh(c), dated && !ContactFresh(c), LastRead(c)),
		Answers:        either(AgentAnswered(c) != "", waited && AgentAnswered(c) == "", task),
		AsProfiled:     either(AsProfiled(c), want && !AsProfiled(c), env),
		HeartbeatsPass: either(record.Passed() && RefusedHeartbeat(c) == nil, RefusedHeartbeat(c) != nil, record),
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
	Accepted  Known `json:"accepted"`   // the browser's WebSocket
	HasStream Known `json:"has_stream"` // the node's, in the gateway's row
	HasShell  Known `json:"has_shell"`  // in the gateway's row
	Computes  Known `json:"computes"`   // a shell computed the walk's nonce
	Decided   Known `json:"decided"`    // a decision of the platform ended it
}

func sessionOf(c *hop.Case) Session {
	session, row := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession), c.Fact(diag.HopTerminalOpenTask, hop.StepSessionRow)
	read := reading.Status(row) == 200
	return Session{
		Accepted:  either(SessionAccepted(c), session != nil && !SessionAccepted(c), session),
		HasStream: either(StreamCame(c), read && !reading.Unasked(row, "session.node_stream_connected_at"), row),
		HasShell:  either(ShellReady(c), read && !reading.Unasked(row, "session.pty_ready_at"), row),
		Computes:  either(ShellComputed(c), session != nil && !ShellComputed(c), session),
		Decided:   either(Decided(c) != "", session != nil || read, session, row),
	}
}

// Workload is the allocation's program, and the route to it.
type Workload struct {
	Runs         Known `json:"runs"`
	PortAnswers  Known `json:"port_answers"` // on the node itself
	RouteAnswers Known `json:"route_answers"`
}

func workloadOf(c *hop.Case) Workload {
	unit, port := c.Fact(diag.HopAppRuntimeLiveness, hop.StepUnit), c.Fact(diag.HopAppRuntimeLiveness, hop.StepPort)
	route := c.Fact(diag.HopAppUserRoute, hop.StepRoute)
	fails := func(f *diag.Fact) bool { return f != nil && !f.Passed() && !f.Failure.Local() }
	return Workload{
		Runs:         either(unit.Passed(), fails(unit), unit),
		PortAnswers:  either(port.Passed(), fails(port), port),
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
