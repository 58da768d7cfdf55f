package hops

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

// listenerSteps are the operator's handshakes with the profile's two listeners for nodes, without a certificate and
// without a request: they show the server's chain, and which CAs a listener asks for certificates of. They are sent
// only if the login on the node failed, since the node's own requests show more. An operator may have no path to these
// listeners, so a missing answer is none.
func listenerSteps() []hop.Step {
	step := func(name, key string, of func(p *profile.Profile) (url, pin string)) hop.Step {
		return hop.Step{
			Name: name, From: hop.Operator, Timeout: 3 * time.Second,
			Needs: hop.Needs{
				NoAPI: true, Facts: []string{hop.FactID(diag.HopNodeOpsAccess, hop.StepSSH)},
				Profile: hop.SkipIf(func(p *profile.Profile) string {
					if url, _ := of(p); url == "" {
						return "the profile has no " + key
					}
					return ""
				}),
			},
			Policy: hop.Policy{Optional: true, Turn: hop.AfterFault},
			When: hop.SkipIf(func(c *hop.Case) string {
				if login := c.Fact(diag.HopNodeOpsAccess, hop.StepSSH); login == nil || login.Passed() {
					return "the node itself can be asked"
				}
				return ""
			}),
			Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
				url, pin := of(&e.Profile)
				return diag.Request{Op: diag.OpTLS, Target: url, Resolve: pin, CAInline: e.NodeCA, TLSLook: true}
			},
		}
	}
	return []hop.Step{
		step(hop.StepAPIListener, "node_runtime_api_url", func(p *profile.Profile) (string, string) {
			return p.NodeRuntimeAPIURL, p.NodeRuntimeResolveAddress
		}),
		step(hop.StepTerminalListener, "node_terminal_url", func(p *profile.Profile) (string, string) {
			return p.NodeTerminalURL, p.NodeTerminalResolveAddress
		}),
	}
}

// judgeListeners judges what the operator's handshakes with the listeners for nodes show, if the node could not be
// asked: the CA of the node's certificates that a listener does not ask for, and a server's certificate that has ended.
func judgeListeners(c *hop.Case) *diag.Finding {
	api := c.Fact(diag.HopNodeRecoveryStatus, hop.StepAPIListener)
	var out diag.Finding
	switch signer, by := world.SigningCAName(c); {
	case api == nil:
		return nil
	case signer != "" && reading.Unlisted(api, signer):
		out = reading.Fail(diag.SigIngressCADrift, api,
			"the platform signs node certificates with %s (%s), and the node ingress at %s asks only for certificates of %s",
			signer, by, reading.Where(api), hop.Clip(api.TLS.AcceptableCAs))
	case world.AsksForOthers(c):
		terminal := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTerminalListener)
		out = reading.Fail(diag.SigIngressCADrift, api,
			"the node ingress at %s asks for certificates of %s, and the terminal listener at %s for those of %s: a node has "+
				"one certificate for both", reading.Where(api), hop.Clip(api.TLS.AcceptableCAs), reading.Where(terminal),
			hop.Clip(terminal.TLS.AcceptableCAs))
		out.Evidence = append(out.Evidence, terminal.ID)
	default:
		cert, what := reading.Misdated(api)
		if cert == nil {
			return nil
		}
		out = reading.Fail(diag.SigAPITLSFailed, api, "%s at %s, %s, is %s: %s", what, reading.Where(api), cert.Subject,
			reading.Dates(cert), reading.Saw(api))
	}
	if out.Signal == diag.SigIngressCADrift {
		out.Failure = diag.OK // the handshake itself
	}
	out.Direct = true
	out.Text = fmt.Sprintf("by the operator's handshake, since the node could not be asked: %s", out.Text)
	return &out
}
