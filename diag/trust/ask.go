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

// Names of the agent's environment.
const (
	envAPI            = "GPUAAS_API_URL"
	envTerminal       = "GPUAAS_TERMINAL_API_URL"
	envRecoveryAPI    = "GPUAAS_RECOVERY_API_URL"
	envRecoveryBundle = "GPUAAS_RECOVERY_CA_BUNDLE_PATH"
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
	bundle := agentFile(subject, "ca-bundle.crt")
	add(node, factEnv, diag.Request{Op: diag.OpEnv, Env: []string{envAPI, envTerminal, envRecoveryAPI, envRecoveryBundle}})
	add(node, factBundle, diag.Request{Op: diag.OpCert, Cert: bundle})
	add(node, factNodeAPI, diag.Request{Op: diag.OpTLS, Target: "${" + envAPI + "}", CABundle: bundle, TLSLook: true})
	add(node, factNodeTerminal,
		diag.Request{Op: diag.OpTLS, Target: "${" + envTerminal + "}", CABundle: bundle, TLSLook: true})
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
	path := s.env(envRecoveryBundle)
	if path == "" {
		return nil
	}
	qs := []Question{{node, diag.Request{ID: factRecoveryBundle, Op: diag.OpCert, Cert: path, TimeoutMS: timeoutMS}}}
	url := cmp.Or(s.env(envRecoveryAPI), s.env(envAPI))
	if url != "" {
		qs = append(qs, Question{node, diag.Request{
			ID: factRecoveryAPI, Op: diag.OpTLS, Target: url, CABundle: path, TLSLook: true, TimeoutMS: timeoutMS,
		}})
	}
	return qs
}

// agentFile is a path in the agent's folder on the node.
func agentFile(s diag.Subject, name string) string {
	dir := cmp.Or(s.Expected["agent_dir"], "/etc/gpuaas")
	return strings.TrimRight(dir, "/") + "/" + name
}
