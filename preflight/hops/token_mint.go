package hops

import (
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

// terminalTokenMint: does the API give a terminal token for the allocation?
func terminalTokenMint() hop.Hop {
	id := diag.HopTerminalTokenMint
	return hop.Hop{
		ID: id, Budget: 5 * time.Second,
		Causes: hop.Causes{
			Behind: hop.PlatformReads(), ExplainedBy: []diag.HopID{diag.HopControlPlaneAccess, diag.HopAllocationBinding},
		},
		Silence: &hop.Silence{Signal: diag.SigControlPlaneUnreachable, Side: diag.SidePlatform,
			Request: "the request for a terminal token"},
		Steps: []hop.Step{{
			Name: hop.StepMint, From: hop.Operator, Timeout: 4 * time.Second,
			Needs: hop.Needs{
				Hops: []diag.HopID{diag.HopAllocationBinding}, Token: true, Paths: []string{profile.PathTerminalToken},
			},
			Policy: hop.Policy{Changes: true}, Ask: func(e *hop.Env, _ *hop.Case) diag.Request { return mintTerminal(e) },
		}},
		Judge: func(c *hop.Case) []diag.Finding {
			f := c.Fact(id, hop.StepMint)
			switch {
			case f == nil:
				return nil
			case world.Decisions[reading.Code(f)] != "":
				return []diag.Finding{world.ByDecision(f, reading.Code(f))}
			case f.Failure == diag.HTTPEdgeAuth:
				return []diag.Finding{reading.Undecided(f,
					"the edge at %s asks for a login in place of a terminal token, and %s", reading.Where(f), reading.CookieOf(f))}
			case reading.ForeignPage(f): // the API takes other requests of this operator
				out := reading.Fail(diag.SigTokenMintFailed, f,
					"no terminal token for %s: %s in place of the API's: nothing of the "+
						"API is in it", c.Subject.AllocationID, world.PageFrom(f))
				out.Side = diag.SideEdge
				return []diag.Finding{out}
			// the token was accepted elsewhere, so this is about its rights
			case reading.Status(f) == 401, reading.Status(f) == 403:
				return []diag.Finding{reading.Undecided(f, "the API gives this operator's token no terminal token for %s: %s",
					c.Subject.AllocationID, reading.Saw(f))}
			case reading.Status(f) == 409, reading.Status(f) == 423: // a conflict, for example with another session
				return []diag.Finding{reading.Undecided(f, "the API gives no terminal token for %s as things are now: %s",
					c.Subject.AllocationID, reading.Saw(f))}
			case reading.Unsigned(f):
				out := reading.Fail(diag.SigTokenMintFailed, f, "no terminal token for %s: %s%s", c.Subject.AllocationID,
					reading.Saw(f), world.Signer(f))
				if out.Side = diag.SidePlatform; world.Unrouted(f) {
					out.Side = diag.SideEdge
				}
				return []diag.Finding{out}
			case !f.Passed():
				out := reading.Fail(diag.SigTokenMintFailed, f, "no terminal token for %s: %s", c.Subject.AllocationID,
					reading.Saw(f))
				if reading.NoCode503(f) || (reading.Status(f) == 0 && reading.InPhase(f,
					"http")) { // nothing names a check of the API
					out.Side = diag.SidePlatform
				}
				return []diag.Finding{out}
			case c.Field(id, hop.StepMint, "token.session_id") == "" && !reading.Unasked(f, "token.session_id"):
				return []diag.Finding{reading.Unmapped(f, "the answer names no session (HTTP %d; token.session_id)",
					reading.Status(f))}
			}
			return nil
		},
		Pass: func(c *hop.Case) string {
			if session := c.Field(id, hop.StepMint, "token.session_id"); session != "" {
				return "session " + session
			}
			return "a token was given"
		},
	}
}
