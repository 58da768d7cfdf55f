package hop

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Options is what an operator chooses for one walk, in addition to the profile.
type Options struct {
	Only    []diag.HopID // empty: all
	Skip    []diag.HopID
	Alone   bool // Only brings what its hops need, and nothing that may explain a failure: for facts without a blame
	Session bool // open one real terminal session (the runbook's ws smoke)
	Token   bool // a token was given
	SSH     bool // a node host is known
	// Watch leaves out what changes anything: tasks, terminal sessions and their tokens.
	Watch bool
}

// NewSubject returns the subject of a walk, with the profile's expectations.
func NewSubject(p profile.Profile, nodeID, nodeHost, allocationID, sessionID string) diag.Subject {
	nodeHost = cmp.Or(nodeHost, p.Nodes[nodeID].Host)
	s := diag.Subject{
		NodeID: nodeID, NodeHost: nodeHost, AllocationID: allocationID, SessionID: sessionID,
		EnvironmentProfile: p.Name, Expected: map[string]string{},
	}
	for key, v := range map[string]string{
		"api_base": p.APIBase, "terminal_base": p.TerminalBase,
		"node_runtime_api_url": p.NodeRuntimeAPIURL, "node_runtime_resolve_address": p.NodeRuntimeResolveAddress,
		"node_terminal_url": p.NodeTerminalURL, "node_terminal_resolve_address": p.NodeTerminalResolveAddress,
		"signing_ca_fingerprint": p.Trust.SigningCAFingerprint, "ingress_ca_fingerprint": p.Trust.IngressCAFingerprint,
		"node_api_server_fingerprint": p.Trust.NodeAPIServerFingerprint,
		"runbook_base":                p.RunbookBase,
		"node_name_servers":           strings.Join(p.NodeNameServers, ","),
		"kind":                        p.Kind, "guessed_paths": strings.Join(p.GuessedPaths(), ","),
		"app_websocket": p.App.Websocket, "app_injected_headers": strings.Join(p.App.InjectedHeaders, ","),
	} {
		if v != "" {
			s.Expected[key] = v
		}
	}
	maps.Copy(s.Expected, p.Agent.Expected())
	for state, words := range p.Task.States() {
		s.Expected["task_"+state] = strings.Join(words, ",")
	}
	if near := p.OtherNodes(nodeID); near != "" {
		s.Expected["other_nodes"] = near
	}
	if nodeHost != "" {
		s.Expected["ssh"] = SSHCommand(p.SSHOf(nodeID), nodeHost)
	}
	return s
}

// CheckWord is how the command of a check begins, behind the program's name.
const CheckWord = "check "

// Checked reports whether a plan is of a check, which is of no profile: a command that needs one is not to be given.
func Checked(p *diag.Plan) bool { return strings.HasPrefix(p.Command, "gpuaasctl "+CheckWord) }

// SudoWords is the end of a login command that becomes root on the node.
const SudoWords = " sudo -n"

// A report is untrusted input, and its commands are printed for pasting. Only lines of the forms that NewPlan's callers
// and SSHCommand make are printed, and only with words that have no shell syntax and do not begin with a dash.
const word = `(?:[\w@%+=:,./][\w@%+=:,./-]*|'[^'-][^']*'(?:\\''[^']*')*)`

var (
	WalkLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^gpuaasctl (?:preflight|` + CheckWord + word + `)(?: --[a-z-]+ ` + word + `)*$`)
	})
	TargetLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^` + word + `(?: --profile ` + word + `)?(?: --node-host ` + word + `)?$`)
	})
	LoginLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^ssh(?: -i ` + word + `)?(?: -o (?:UserKnownHostsFile=` + word +
			`|'UserKnownHostsFile=[^']*'(?:\\''[^']*')*))?(?: -J ` + word + `)?(?: -p \d+)? ` + word + `(?: sudo -n)?$`)
	})
)

// Pasted returns a command line of a report, "" if it does not have the form.
func Pasted(line string, form *regexp.Regexp) string {
	if form.MatchString(line) {
		return line
	}
	return ""
}

// SSHOf returns the login to type in front of a command for the node. A user from ssh_config is known only after a
// login.
func SSHOf(c *Case) string {
	login := Pasted(c.Expected("ssh"), LoginLine())
	f := c.Fact(diag.HopNodeOpsAccess, StepSSH)
	if login == "" || strings.HasSuffix(login, SudoWords) || f == nil || f.SSH == nil || f.SSH.UID == nil ||
		f.SSH.User == "root" {
		return login
	}
	if f.SSH.SudoRefused || *f.SSH.UID == 0 {
		login += SudoWords
	}
	return login
}

// SSHCommand returns the login that this walk uses, as far as the profile knows it, as a person would type it.
func SSHCommand(c profile.SSH, host string) string {
	argv := []string{"ssh"}
	if c.Identity != "" {
		argv = append(argv, "-i", c.Identity)
	}
	if c.KnownHosts != "" {
		argv = append(argv, "-o", "UserKnownHostsFile="+c.KnownHosts)
	}
	if c.Jump != "" {
		argv = append(argv, "-J", c.Jump)
	}
	if c.Port != 0 && c.Port != 22 {
		argv = append(argv, "-p", strconv.Itoa(c.Port))
	}
	if c.User != "" {
		host = c.User + "@" + host
	}
	argv = append(argv, host)
	if (c.Sudo == nil && c.User != "" && c.User != "root") || (c.Sudo != nil && *c.Sudo) {
		return diag.Command(argv...) + SudoWords
	}
	return diag.Command(argv...)
}

// NewPlan plans a walk: its steps, vantages and budgets. It is pure: the same profile, subject and options give the
// same plan. Hops of Only bring others, see WithNeeds. A step that depends on one that is left out is left out as
// well, with the reason, and so is one that this platform does not support. An optional hop that the profile leaves out
// has no row, unless Only names it: then the row says why it is not walked.
func (h *Chain) NewPlan(p profile.Profile, subject diag.Subject, o Options) diag.Plan {
	plan := diag.Plan{Profile: p.Name, InsecureHTTP: p.InsecureHTTP, Policy: map[string]int64{}}
	for key := range profile.DefaultPolicy() {
		plan.Policy[key] = p.PolicyValue(key)
	}
	chain, named := h.list, o.Only
	o.Only = WithNeeds(chain, o.Only, !o.Alone)
	out := leftOut{}
	for i := range chain {
		if k := &chain[i]; k.Optional && p.LeavesOut(k.ID) != "" && !slices.Contains(named, k.ID) {
			continue
		}
		plan.Hops = append(plan.Hops, out.planned(&chain[i], &p, subject, o))
	}
	return plan
}

// Reaches reports whether a walk by the plan uses a vantage: the hop that opens it is not left out.
func (h *Chain) Reaches(p diag.Plan, vantage string) bool {
	return slices.ContainsFunc(p.Hops, func(row diag.PlannedHop) bool {
		return row.Skip == "" && In(h.list, row.ID).Opens == vantage
	})
}

// WithNeeds adds the hops that the named ones need, transitively, and with explained those that may explain a failure
// of theirs: then a part of a walk blames nothing that the whole walk explains. An empty list stays empty, which means
// all hops.
func WithNeeds(chain []Hop, only []diag.HopID, explained bool) []diag.HopID {
	only = slices.Clone(only)
	add := func(ids []diag.HopID) {
		for _, id := range ids {
			if !slices.Contains(only, id) {
				only = append(only, id)
			}
		}
	}
	for i := 0; i < len(only); i++ {
		h := In(chain, only[i])
		if explained {
			add(h.ExplainedBy)
			add(h.Reads)
		}
		for k := range h.Steps {
			n := &h.Steps[k].Needs
			add(n.Hops)
			for _, fact := range n.Facts {
				add([]diag.HopID{OfFact(fact)})
			}
		}
	}
	return only
}

// Budget returns how long a hop may take in all.
func Budget(p profile.Profile, h *Hop) time.Duration {
	if b, ok := p.Budgets[h.ID]; ok {
		return b
	}
	if h.Patience == "" {
		return h.Budget
	}
	return h.Budget + time.Duration(p.PolicyValue(h.Patience))*time.Second
}

// Check returns names as hop ids; the error for a name that is not in the chain has the flag.
func (h *Chain) Check(flag string, names []string) ([]diag.HopID, error) {
	var ids []diag.HopID
	for _, n := range names {
		if Position(h.list, diag.HopID(n)) == len(h.list) {
			return nil, fmt.Errorf("--%s: no hop is named %q (gpuaasctl preflight hops lists them)", flag, n)
		}
		ids = append(ids, diag.HopID(n))
	}
	return ids, nil
}

// Policy keys that judges use.
const (
	PolicyStaleAfter   = "node.heartbeat_stale_after_seconds"
	PolicyDiskPressure = "node.disk_pressure_percent"
	PolicyNodeStream   = "terminal.node_stream_timeout_seconds"
)

// AboutNode reports whether the hop measures something of the walk's node or of its allocation, and not only the
// platform.
func (h *Hop) AboutNode() bool {
	return h.Allocation || h.OfNode != nil || slices.ContainsFunc(h.Steps, func(s Step) bool { return s.From == Node })
}

// WantsNode reports whether the plan is about the node: --only and --skip did not leave out every hop that is.
func (h *Chain) WantsNode(p diag.Plan) bool {
	return slices.ContainsFunc(p.Hops, func(row diag.PlannedHop) bool {
		return In(h.list, row.ID).AboutNode() && !OptedOut(&row)
	})
}

// AsksNode reports whether a walk by the plan measures the node, or asks the platform about it.
func (h *Chain) AsksNode(p diag.Plan) bool {
	return slices.ContainsFunc(p.Hops, func(row diag.PlannedHop) bool {
		return In(h.list, row.ID).AboutNode() && row.Skip == ""
	})
}
