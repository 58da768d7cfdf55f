package chaos

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// Scenario is one drill as its file describes it. Texts of probes and parameters may contain ${variables}, see
// Variables.
type Scenario struct {
	Metadata       Metadata  `yaml:"metadata" json:"metadata"`
	Target         Target    `yaml:"target" json:"target"`
	Guards         Guards    `yaml:"guards" json:"guards"`
	Faults         []Fault   `yaml:"faults" json:"faults" jsonschema:"minItems=1"`
	VerifyInjected Injection `yaml:"verifyInjected" json:"verifyInjected"`
	Expect         Expect    `yaml:"expect" json:"expect"`
	Recovery       Recovery  `yaml:"recovery" json:"recovery"`
	Evidence       []string  `yaml:"evidence" json:"evidence" jsonschema:"minItems=1" jsonschema_description:"what to look at while it is broken and afterwards; taken into the report"`

	File   string `yaml:"-" json:"-"` // where it was read
	Source Source `yaml:"-" json:"-"`
	Lab    bool   `yaml:"-" json:"-"` // it is in a folder lab: written for the lab's machines alone
}

// Metadata describes the drill and its owner.
type Metadata struct {
	ID       string `yaml:"id" json:"id" jsonschema:"pattern=^[a-z0-9][a-z0-9-]*$,maxLength=48" jsonschema_description:"the file's name without .yaml"`
	Title    string `yaml:"title" json:"title" jsonschema:"minLength=1"`
	Severity string `yaml:"severity" json:"severity" jsonschema:"enum=P0,enum=P1,enum=P2" jsonschema_description:"of the incident that the drill plays"`
	Owner    string `yaml:"owner" json:"owner" jsonschema:"minLength=1" jsonschema_description:"who repairs it"`
	Runbook  string `yaml:"runbook" json:"runbook" jsonschema:"minLength=1" jsonschema_description:"where the repair is written down"`
}

// Role is a machine's part in a drill.
type Role string

// The roles.
const (
	RoleNode     Role = "node"     // the node that is walked
	RolePlatform Role = "platform" // the machine with control plane, edge and gateway: platform_ssh in the profile
	RolePeer     Role = "peer"     // another node of the profile
	RoleOperator Role = "operator" // where the tool runs; for probes only, nothing is broken there
)

// Target selects the machines that may be broken.
type Target struct {
	Role       Role              `yaml:"role" json:"role" jsonschema:"enum=node,enum=platform,enum=peer" jsonschema_description:"where the faults are made, unless a fault says otherwise"`
	Labels     map[string]string `yaml:"labels,omitempty" json:"labels,omitempty" jsonschema_description:"a node must have all of them"`
	MaxNodes   int               `yaml:"maxNodes" json:"maxNodes" jsonschema:"minimum=1,maximum=16" jsonschema_description:"nodes that may be broken at once"`
	Disposable bool              `yaml:"disposable,omitempty" json:"disposable,omitempty" jsonschema_description:"the machine may be lost, and its owner says so, too: only such ones take faults of tier T3, and those that stop SSH"`
}

// Guards limit the drill.
type Guards struct {
	TTL    Duration     `yaml:"ttl" json:"ttl" jsonschema_description:"from arming; after that everything is reverted, by whatever is still there"`
	Lease  Duration     `yaml:"lease,omitempty" json:"lease,omitempty" jsonschema_description:"without a word from the tool for so long, everything is undone; default 20s"`
	Window string       `yaml:"window,omitempty" json:"window,omitempty" jsonschema_description:"when it may begin: Mon-Fri 08:00-17:00 UTC"`
	StopIf []diag.HopID `yaml:"stopIf,omitempty" json:"stopIf,omitempty" jsonschema_description:"hops whose failure ends the drill at once"`
}

// Fault is one thing that is broken.
type Fault struct {
	ID     string   `yaml:"id" json:"id" jsonschema:"pattern=^[a-z0-9]([a-z0-9-]*[a-z0-9])?$,maxLength=24"`
	Kind   string   `yaml:"kind" json:"kind"`
	On     Role     `yaml:"on,omitempty" json:"on,omitempty" jsonschema:"enum=node,enum=platform,enum=peer" jsonschema_description:"another machine than the target's"`
	Params Params   `yaml:"params,omitempty" json:"params,omitempty"`
	At     Duration `yaml:"at,omitempty" json:"at,omitempty" jsonschema_description:"after the first one"`
}

// Probe is a check by a standard tool of the machine, never by this project's own probe code. The tool is looked
// up by name on the machine.
type Probe struct {
	Probe  []string `yaml:"probe,flow" json:"probe" jsonschema:"minItems=1" jsonschema_description:"program and arguments; no shell"`
	From   Role     `yaml:"from" json:"from" jsonschema:"enum=node,enum=platform,enum=peer,enum=operator"`
	View   string   `yaml:"view,omitempty" json:"view,omitempty" jsonschema_description:"a unit whose view of the files is taken"`
	Expect Answer   `yaml:"expect" json:"expect"`
	Within Duration `yaml:"within" json:"within" jsonschema_description:"tried until it holds, for so long"`
}

// Answer is the expected result of a probe.
type Answer struct {
	Exit  []int  `yaml:"exit,omitempty,flow" json:"exit,omitempty" jsonschema_description:"any of these exit codes; default 0"`
	Has   string `yaml:"has,omitempty" json:"has,omitempty" jsonschema_description:"must be in what it prints"`
	Lacks string `yaml:"lacks,omitempty" json:"lacks,omitempty" jsonschema_description:"must not be"`
}

// Injection proves that the fault is in place, and that not everything else is broken.
type Injection struct {
	Probe   `yaml:",inline" json:",inline"`
	Control Probe `yaml:"control" json:"control" jsonschema_description:"something that must still work, so that the probe does not fail for another reason"`
}

// Expect is the report that the chain must give.
type Expect struct {
	Blame             Blame             `yaml:"blame" json:"blame"`
	Others            []Finding         `yaml:"others,omitempty" json:"others,omitempty" jsonschema_description:"further findings that must be in the report, where several things are broken"`
	Reason            []diag.ReasonCode `yaml:"reason,omitempty,flow" json:"reason,omitempty" jsonschema_description:"what is behind it, as the walk classifies the node: any of these"`
	FirstFailedHop    []diag.HopID      `yaml:"firstFailedHop,omitempty,flow" json:"firstFailedHop,omitempty"`
	Terminal          string            `yaml:"terminal,omitempty" json:"terminal,omitempty" jsonschema:"pattern=^[a-z_]+$" jsonschema_description:"a terminal of the allocation is opened before the first fault, with a process that leaves its session; it must be ended with this reason, as the browser gets it"`
	DetectWithin      Duration          `yaml:"detectWithin" json:"detectWithin" jsonschema_description:"from the injection"`
	MustStayGreen     StayGreen         `yaml:"mustStayGreen,omitempty,flow" json:"mustStayGreen,omitzero" jsonschema_description:"a list of hops; or was-green: every hop that was green before anything was touched, and is not expected to fail. A hop that the environment has not is left out, and the report says so"`
	SameCorrelationID bool              `yaml:"sameCorrelationId" json:"sameCorrelationId" jsonschema_description:"report, task, gateway and agent name the walk by one id"`
}

// Blame is the word none, or the finding that must get the blame.
type Blame struct {
	None bool `yaml:"-" json:"-"`
	Finding
}

// Finding matches a finding: any value of each list.
type Finding struct {
	Status  diag.Status    `yaml:"status,omitempty" json:"status,omitempty" jsonschema:"enum=warn,enum=inconclusive" jsonschema_description:"of the hop, where it does not fail"`
	Hop     []diag.HopID   `yaml:"hop,flow" json:"hop" jsonschema:"minItems=1"`
	Signal  []diag.Signal  `yaml:"signal,flow" json:"signal" jsonschema:"minItems=1"`
	Failure []diag.Failure `yaml:"failure,omitempty,flow" json:"failure,omitempty" jsonschema_description:"empty: any"`
}

// Recovery is what must hold after everything is reverted.
type Recovery struct {
	Green          int       `yaml:"green" json:"green" jsonschema:"minimum=2" jsonschema_description:"walks in a row that must pass"`
	Within         Duration  `yaml:"within" json:"within"`
	Decision       *Decision `yaml:"decision,omitempty" json:"decision,omitempty" jsonschema_description:"what an operator has to tell the platform once it is undone, where nothing heals by itself: a doubt about an identity"`
	Proof          Probe     `yaml:"proof" json:"proof" jsonschema_description:"what the runbook's row says proves the repair"`
	AllowedChanges []Allowed `yaml:"allowedChanges,omitempty" json:"allowedChanges,omitempty"`
	Residue        string    `yaml:"residue" json:"residue" jsonschema:"enum=none"`
}

// Decision is one audited POST to the platform's API, with the operator's token.
type Decision struct {
	Path   string `yaml:"path" json:"path" jsonschema:"pattern=^/" jsonschema_description:"below the API's base"`
	Reason string `yaml:"reason" json:"reason" jsonschema:"minLength=1" jsonschema_description:"what its audit says"`
}

// Allowed is a difference that the drill may leave behind.
type Allowed struct {
	Class step.Class `yaml:"class" json:"class"`
	Key   string     `yaml:"key" json:"key" jsonschema_description:"a pattern as of a shell's file names; * does not cross a slash"`
	Why   string     `yaml:"why" json:"why" jsonschema:"minLength=1"`
}

// On returns the role of the machine that the fault is injected on.
func (s *Scenario) On(f Fault) Role {
	return cmp.Or(f.On, s.Target.Role)
}

// Duration is a time span with its unit: "90s", "2m", "1m30s". A bare number is rejected, since its unit is
// unknown.
type Duration time.Duration

// Std converts d to a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns the shortest spelling that parses as d: "90s", "2m", "500ms".
func (d Duration) String() string {
	for _, u := range [...]struct {
		unit time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if whole := time.Duration(d); whole != 0 && whole%u.unit == 0 {
			return strconv.FormatInt(int64(whole/u.unit), 10) + u.name
		}
	}
	return time.Duration(d).String()
}

// MarshalText writes d in String's format, in JSON as in YAML.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses d.
func (d *Duration) UnmarshalText(text []byte) error {
	std, err := time.ParseDuration(string(text))
	if err == nil && string(text) == "0" { // the only number that Go accepts without a unit
		err = strconv.ErrSyntax
	}
	if err != nil {
		return fmt.Errorf("want a duration with its unit (30s, 2m), not %q", text)
	}
	*d = Duration(std)
	return nil
}

// UnmarshalYAML parses d; its error names the line.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return strictyaml.LineError(n, "want a duration with its unit (30s, 2m)")
	}
	if err := d.UnmarshalText([]byte(n.Value)); err != nil {
		return strictyaml.LineError(n, err.Error())
	}
	return nil
}
