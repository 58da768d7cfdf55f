package trust

import (
	"cmp"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Ids of the facts that this package requests in addition to a walk's.
const (
	factNodeAPI          = "trust/node_api"
	factNodeTerminal     = "trust/node_terminal"
	factBundle           = "trust/bundle"
	factEnv              = "trust/env"
	factRecoveryBundle   = "trust/recovery_bundle"
	factRecoveryAPI      = "trust/recovery_api"
	factOperatorAPI      = "trust/operator_api"
	factOperatorTerminal = "trust/operator_terminal"
	factProfileBundle    = "trust/profile_bundle"
)

// timeoutMS bounds one probe: long enough for a handshake over a slow link.
const timeoutMS = 4000

// Question is a request and the vantage that it is for.
type Question struct {
	From    string // operator | node
	Request diag.Request
}

// Ask returns what a walk does not measure: a handshake with each listener from both sides, even if the chain does not
// verify, and the content of the bundles, even if no listener answers. nodeCA is the profile's bundle as PEM,
// bundlePath the bundle's path on the node; both may be empty.
func Ask(subject diag.Subject, nodeCA, bundlePath string) []Question {
	var qs []Question
	add := func(from, id string, req diag.Request) {
		req.ID, req.TimeoutMS = id, timeoutMS
		qs = append(qs, Question{from, req})
	}
	askAgent(subject, add)
	for _, e := range [...]struct{ id, url, address string }{
		{factOperatorAPI, "node_runtime_api_url", "node_runtime_resolve_address"},
		{factOperatorTerminal, "node_terminal_url", "node_terminal_resolve_address"},
	} {
		if url := subject.Expected[e.url]; url != "" {
			add(operator, e.id, diag.Request{Op: diag.OpTLS, Target: url, Resolve: subject.Expected[e.address], CAInline: nodeCA,
				TLSLook: true})
		}
	}
	if bundlePath != "" {
		add(operator, factProfileBundle, diag.Request{Op: diag.OpCert, Cert: bundlePath})
	}
	return qs
}

// AskNext returns the questions that need the agent's environment: about the endpoint at which it would recover.
func AskNext(subject diag.Subject, facts []diag.Fact) []Question {
	s := newScene(subject, facts)
	path := s.env(s.names().RecoveryBundle)
	if path == "" {
		return nil
	}
	qs := []Question{{node, diag.Request{ID: factRecoveryBundle, Op: diag.OpCert, Cert: path, TimeoutMS: timeoutMS}}}
	url := cmp.Or(s.env(s.names().RecoveryAPI), s.env(s.names().API))
	if url != "" {
		qs = append(qs, Question{node, diag.Request{
			ID: factRecoveryAPI, Op: diag.OpTLS, Target: url, CABundle: path, TLSLook: true, TimeoutMS: timeoutMS,
		}})
	}
	return qs
}

// askAgent asks what the agent trusts and reaches, as far as the profile says how that is known.
func askAgent(subject diag.Subject, add func(from, id string, req diag.Request)) {
	if why := subject.Expected["agent"]; why != "" { // there is none
		return
	}
	names := diag.AgentNamesIn(subject.Expected)
	_, _, bundle := diag.AgentFilesIn(subject.Expected)
	var read []string
	for _, name := range [...]string{names.API, names.Terminal, names.RecoveryAPI, names.RecoveryBundle} {
		if target := refOf(name); target != "" && target != name {
			read = append(read, name)
		}
	}
	add(node, factEnv, diag.Request{Op: diag.OpEnv, Env: read})
	if bundle != "" {
		add(node, factBundle, diag.Request{Op: diag.OpCert, Cert: bundle})
	}
	for _, at := range [...]struct{ id, name string }{{factNodeAPI, names.API}, {factNodeTerminal, names.Terminal}} {
		if target := refOf(at.name); target != "" {
			add(node, at.id, diag.Request{Op: diag.OpTLS, Target: target, CABundle: bundle, TLSLook: true})
		}
	}
}

// refOf returns a setting of the agent as a request has it; "" if the agent has none.
func refOf(name string) string {
	switch {
	case name == diag.Absent:
		return ""
	case strings.Contains(name, "://"):
		return name
	}
	return "${" + name + "}"
}

// bundleOfAgent and certOfAgent are paths of the agent's files on the node.
func bundleOfAgent(s diag.Subject) string {
	_, _, bundle := diag.AgentFilesIn(s.Expected)
	return bundle
}

func certOfAgent(s diag.Subject) string {
	cert, _, _ := diag.AgentFilesIn(s.Expected)
	return cert
}
