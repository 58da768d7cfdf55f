package hops

import (
	"fmt"
	"maps"
	"net/url"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

// sessionNeeds returns what it takes to open a terminal of another platform; nil for the reference platform's.
func sessionNeeds(p *profile.Profile) *hop.Needs {
	t := p.Terminal
	if t.OfReference() {
		return nil
	}
	own := t.Token == profile.TokenAuth
	n := hop.Needs{Session: true, NoAPI: true, Token: own}
	if t.Kind == diag.TerminalWS {
		n.Hops, n.Paths = append(n.Hops, diag.HopTerminalPublicRoute), []string{profile.PathTerminalWS}
		if !p.Mapping.Lacks(profile.PathTerminalToken) {
			n.Hops = append(n.Hops, diag.HopTerminalTokenMint)
			n.Facts = append(n.Facts, hop.FactID(diag.HopTerminalTokenMint, hop.StepMint))
			if t.Token == profile.TokenMinted {
				n.Fields = []string{"token.token"}
			}
		}
	}
	if strings.Contains(t.Namespace+t.Pod+t.Container+strings.Join(t.Command, ""), "{os_user}") {
		n.Facts = append(n.Facts, hop.FactID(diag.HopAllocationBinding, hop.StepAllocation))
		n.Fields = append(n.Fields, "allocation.os_user")
	}
	return &n
}

// askForeign returns the request that opens a terminal of another platform; the zero request if its address is not
// known, or is not where the profile says that terminals are: no secret goes there.
func askForeign(e *hop.Env, c *hop.Case) diag.Request {
	t := e.Profile.Terminal
	vars := map[string]string{
		"node_id": e.Subject.NodeID, "allocation_id": e.Subject.AllocationID, "os_user": world.OSUser(c),
	}
	req := diag.Request{Op: diag.OpSession, Terminal: t.Speaks()}
	req.Resolve, req.CABundle = e.Profile.TerminalResolveAddress, e.Profile.Trust.OperatorCA
	req.Header, req.Cookie, req.InsecureHTTP = e.Headers(), e.Cookie, e.Profile.InsecureHTTP
	req.Subprotocols = t.Subprotocols
	req.Extract = e.Profile.Mapping.Extract(hop.FieldErrorCode, "error.message")
	if t.Token == profile.TokenAuth {
		req.Token = e.Token
	}
	if t.Kind == diag.TerminalExec {
		req.Extract = map[string]string{hop.FieldErrorCode: "reason", "error.message": "message"}
		req.Target = hop.Join(e.Profile.TerminalBase, execPath(t, vars))
		return req
	}
	req.Header["Origin"] = hop.EndpointOf(e.Profile.TerminalBase)
	mint := c.Fact(diag.HopTerminalTokenMint, hop.StepMint)
	if t.Token == profile.TokenMinted {
		if mint == nil || mint.HTTP == nil || mint.HTTP.Kept.IsZero() {
			return diag.Request{}
		}
		req.Token = mint.HTTP.Kept
	}
	minted, query := c.URL(diag.HopTerminalTokenMint, hop.StepMint, "token.url")
	if minted != "" {
		if !hop.SameEndpoint(minted, e.Profile.TerminalBase) {
			return diag.Request{} // its judge says where the URL points
		}
		req.Target, req.Query = minted, query
		return req
	}
	req.Target = e.PathURL(e.Profile.TerminalBase, profile.PathTerminalWS,
		map[string]string{"session_id": c.Field(diag.HopTerminalTokenMint, hop.StepMint, "token.session_id")})
	if req.Target == "" {
		return diag.Request{}
	}
	return req
}

// execPath is the path and query of an exec in a pod, as the Kubernetes API documents it.
func execPath(t profile.Terminal, vars map[string]string) string {
	q := url.Values{"stdin": {"1"}, "stdout": {"1"}, "stderr": {"1"}, "tty": {"1"}}
	if t.Container != "" {
		q.Set("container", profile.Fill(t.Container, vars))
	}
	for _, word := range t.Command {
		q.Add("command", profile.Fill(word, maps.Clone(vars)))
	}
	return fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/exec?%s", url.PathEscape(profile.Fill(t.Namespace, vars)),
		url.PathEscape(profile.Fill(t.Pod, vars)), q.Encode())
}
