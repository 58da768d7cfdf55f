package preflight

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	stepHealthz = "healthz"
	stepAuth    = "auth"

	// culpritControlPlane is at fault when neither the operator nor the node gets an answer.
	culpritControlPlane = "control plane"
)

// controlPlaneAccess: can the operator reach the API, and is the operator let in?
func controlPlaneAccess() Hop {
	id := diag.HopControlPlaneAccess
	return Hop{
		ID: id, Title: "operator reaches the control plane", Layer: diag.LayerManagement, Budget: 8 * time.Second,
		Steps: []Step{
			{
				Name: stepHealthz, From: Operator, Timeout: 4 * time.Second, BothFamilies: true,
				Paths: []string{profile.PathHealthz},
				Ask: func(e *Env, _ *Case) diag.Request {
					req := e.api("GET", profile.PathHealthz, nil)
					req.Token = diag.Secret{}
					return req
				},
			},
			{
				Name: stepAuth, From: Operator, Timeout: 4 * time.Second, Paths: []string{profile.PathTrust},
				Excused: func(_ *Case, f *diag.Fact) bool { return status(f) == 404 }, // a platform may have no trust page
				Ask: func(e *Env, _ *Case) diag.Request {
					return e.api("GET", profile.PathTrust, nil,
						"trust.signing_ca", "trust.ingress_ca", "trust.ingress_trusts_signing_ca", "trust.node_api_server", "trust.terminal_server")
				},
			},
		},
		Judge: func(c *Case) []diag.Finding {
			h, a := c.Fact(id, stepHealthz), c.Fact(id, stepAuth)
			if h != nil && (!h.Passed() || status(h) != 200) {
				f := fail(diag.SigControlPlaneUnreachable, h, "the API at %s does not answer the operator: %s%s", where(h), saw(h), presented(h))
				if h.Phase != "tls" { // a certificate that this operator does not trust says nothing about the node's path
					f.Culprit = culpritControlPlane
					f.Text += fromNode(c)
				}
				return []diag.Finding{f}
			}
			if a != nil && (status(a) == 401 || status(a) == 403) {
				return []diag.Finding{fail(diag.SigOperatorAuthFailed, a, "the API refuses the operator's token: %s", saw(a))}
			}
			if a != nil && !a.Passed() && status(a) != 404 {
				text := "the API answers /healthz but not the operator's request: %s"
				if h == nil {
					text = "the API does not answer the operator's request: %s"
				}
				return []diag.Finding{fail(diag.SigControlPlaneUnreachable, a, text, saw(a))}
			}
			return nil
		},
		Pass: func(c *Case) string {
			h, a := c.Fact(id, stepHealthz), c.Fact(id, stepAuth)
			if h == nil {
				h = a // this platform has no /healthz
			}
			text := fmt.Sprintf("%s answers %d", where(h), status(h))
			switch {
			case a == nil && c.planned(id).Left[stepAuth] != skipNoToken:
				return text + "; nothing was read with the token: " + c.planned(id).Left[stepAuth]
			case a == nil:
				return text + "; no token, so nothing is read through it"
			case !a.Passed():
				return text + "; there is no trust page (HTTP 404), so nobody said that the token is accepted"
			}
			return text + ", the token is accepted"
		},
	}
}

// fromNode says whether the node gets an answer from its API: who else is cut off tells where the fault is.
func fromNode(c *Case) string {
	reach, wait := c.Fact(diag.HopNodeRuntimeAPI, stepReach), c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait)
	silent := func(f *diag.Fact) bool {
		return f != nil && !f.Passed() && !f.Throttled() && (status(f) == 0 || status(f) >= 500)
	}
	switch {
	case silent(reach) || silent(wait):
		return "; nor does the node API answer the node, so this is the control plane, not the operator's way to it"
	case wait != nil:
		return "; the node API answers the node, so the fault is on the operator's way"
	}
	return ""
}
