package preflight

import (
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// terminalTokenMint: does the API give a terminal token for the allocation?
func terminalTokenMint() Hop {
	id := diag.HopTerminalTokenMint
	return Hop{
		ID: id, Behind: platformReads(), Budget: 5 * time.Second,
		ExplainedBy: []diag.HopID{diag.HopControlPlaneAccess, diag.HopAllocationBinding},
		Silence: &Silence{diag.SigControlPlaneUnreachable, diag.SidePlatform,
			"the request for a terminal token"},
		Steps: []Step{{
			Name: stepMint, From: Operator, Token: true, Changes: true, Timeout: 4 * time.Second,
			Needs: []diag.HopID{diag.HopAllocationBinding}, Paths: []string{profile.PathTerminalToken},
			Ask: func(e *Env, _ *Case) diag.Request { return mintTerminal(e) },
		}},
		Judge: func(c *Case) []diag.Finding {
			f := c.Fact(id, stepMint)
			switch {
			case f == nil:
				return nil
			case decisions[code(f)] != "":
				return byDecision(f, code(f))
			case f.Failure == diag.HTTPEdgeAuth:
				return []diag.Finding{undecided(f, "the edge at %s asks for a login in place of a terminal token, and %s", where(f),
					cookieOf(f))}
			case foreignPage(f): // the API takes other requests of this operator
				out := fail(diag.SigTokenMintFailed, f, "no terminal token for %s: %s in place of the API's: nothing of the "+
					"API is in it", c.Subject.AllocationID, pageFrom(f))
				out.Side = diag.SideEdge
				return []diag.Finding{out}
			case status(f) == 401, status(f) == 403: // the token was accepted elsewhere, so this is about its rights
				return []diag.Finding{undecided(f, "the API gives this operator's token no terminal token for %s: %s",
					c.Subject.AllocationID, saw(f))}
			case status(f) == 409, status(f) == 423: // a conflict, for example with another session
				return []diag.Finding{undecided(f, "the API gives no terminal token for %s as things are now: %s",
					c.Subject.AllocationID, saw(f))}
			case unsigned(f):
				out := fail(diag.SigTokenMintFailed, f, "no terminal token for %s: %s%s", c.Subject.AllocationID, saw(f), signer(f))
				if out.Side = diag.SidePlatform; unrouted(f) {
					out.Side = diag.SideEdge
				}
				return []diag.Finding{out}
			case !f.Passed():
				out := fail(diag.SigTokenMintFailed, f, "no terminal token for %s: %s", c.Subject.AllocationID, saw(f))
				if noCode503(f) || (status(f) == 0 && inPhase(f, "http")) { // nothing names a check of the API
					out.Side = diag.SidePlatform
				}
				return []diag.Finding{out}
			case c.Field(id, stepMint, "token.session_id") == "" && !unasked(f, "token.session_id"):
				return []diag.Finding{unmapped(f, "the answer names no session (HTTP %d; token.session_id)", status(f))}
			}
			return nil
		},
		Pass: func(c *Case) string {
			if session := c.Field(id, stepMint, "token.session_id"); session != "" {
				return "session " + session
			}
			return "a token was given"
		},
	}
}
