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
		ID: id, Absent: hop.NoTokenMinted, Budget: 5 * time.Second,
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
			return list(mintedURLRows.judge(judged{c: c, f: f}))
		},
		Pass: func(c *hop.Case) string {
			if session := c.Field(id, hop.StepMint, "token.session_id"); session != "" {
				return "session " + session
			}
			return "a token was given"
		},
	}
}

// mintedURLRows compare the URL that the token's answer gives to browsers with the gateway that the walk opens.
var mintedURLRows = rows{
	{when: func(j judged) bool { return hop.HostPortOf(minted(j)) == "" }}, // none, or one without a host
	{when: func(j judged) bool { return hop.Plain(minted(j)) && pageIsSecure(j) },
		then: warns("", "a token was given, but its URL is %s, and users' pages are under https: a "+
			"browser refuses such a connection (mixed content); have the platform give a wss:// URL (its public URL, or "+
			"X-Forwarded-Proto at the edge)", mintedAt),
		side: diag.SidePlatform},
	{when: func(j judged) bool { return !hop.SameEndpoint(minted(j), j.c.Expected("terminal_base")) },
		then: warns("", "a token was given, but its URL is of %s, and the profile's terminal_base is "+
			"%s, which this walk opens: where browsers are sent was not measured; correct whichever is old", mintedAt,
			func(j judged) string { return hop.EndpointOf(j.c.Expected("terminal_base")) }),
		side: diag.SidePlatform},
}

func minted(j judged) string   { return hop.FieldOf(j.f, "token.url") }
func mintedAt(j judged) string { return hop.EndpointOf(minted(j)) }

// pageIsSecure reports whether a browser's page comes over TLS, as far as the profile shows it.
func pageIsSecure(j judged) bool {
	for _, base := range [...]string{j.c.Expected("terminal_base"), j.c.Expected("api_base")} {
		if base != "" && !hop.Plain(base) {
			return true
		}
	}
	return false
}
