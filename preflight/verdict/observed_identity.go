package verdict

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// The holders of this file are for causes that are a certificate, a decision, or a report of the side that measured it.

// certDates holds if the node's certificate, as it was read or as f sent it, has wrong dates by every clock of the
// walk.
func certDates(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	id := c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity)
	if id == nil || id.Cert == nil || (f != id && (f.TLS == nil || f.TLS.CertSent != id.Cert.Leaf.Serial)) {
		return nil, ""
	}
	return id, datesWrong(c, id, &id.Cert.Leaf)
}

// serverDates holds if the certificate that the far side of f presented as its own has wrong dates.
func serverDates(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if !reading.OwnDates(f) {
		return nil, ""
	}
	return f, datesWrong(c, f, reading.ServedLeaf(f))
}

// signerDates holds if a CA above the far side's certificate has wrong dates.
func signerDates(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	cert, _ := reading.Misdated(f)
	if cert == nil || reading.OwnDates(f) {
		return nil, ""
	}
	return f, datesWrong(c, f, cert)
}

// datesWrong describes how a certificate's dates exclude the present, by the clock where f was measured and by another
// one; "" if the certificate is valid by one of them, or if no second clock was read.
func datesWrong(c *hop.Case, f *diag.Fact, leaf *diag.CertInfo) string {
	clocks := clocksOf(c, f)
	if len(clocks) < 2 {
		return ""
	}
	all := func(wrong func(time.Time) bool) bool {
		return !slices.ContainsFunc(clocks, func(t time.Time) bool { return !wrong(t) })
	}
	switch {
	case all(func(t time.Time) bool { return t.After(leaf.NotAfter.Time) }):
		return fmt.Sprintf("the certificate of %s ended at %s", leaf.Subject, leaf.NotAfter.Format(time.RFC3339))
	case all(func(t time.Time) bool { return t.Before(leaf.NotBefore.Time) }):
		return fmt.Sprintf("the certificate of %s begins at %s", leaf.Subject, leaf.NotBefore.Format(time.RFC3339))
	}
	return ""
}

// clocksOf returns the time of f by the clocks of operator, node and platform, as far as they were read.
func clocksOf(c *hop.Case, f *diag.Fact) []time.Time {
	var clocks []time.Time
	operator, known := f.At.Time, f.Vantage == hop.Operator
	var offset time.Duration
	k := c.Fact(diag.HopNodeReadiness, hop.StepClock)
	node := k != nil && k.Clock != nil && k.Clock.OffsetMS != nil
	if node {
		offset = time.Duration(*k.Clock.OffsetMS) * time.Millisecond
	}
	if f.Vantage == hop.Node && node {
		operator, known = f.At.Add(-offset), true
	}
	if f.At.IsZero() {
		return nil
	}
	if f.Vantage == hop.Node && !node {
		clocks = append(clocks, f.At.Time)
	}
	if !known {
		return clocks
	}
	clocks = append(clocks, operator)
	if node {
		clocks = append(clocks, operator.Add(offset))
	}
	if platform, _, read := world.PlatformOffset(c); read {
		clocks = append(clocks, operator.Add(platform))
	}
	return clocks
}

func otherKey(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if f.Cert == nil || f.Cert.KeyMatches == nil || *f.Cert.KeyMatches {
		return nil, ""
	}
	return f, fmt.Sprintf("%s is not the key of %s", f.Request.Key, f.Request.Cert)
}

// deniedToAgent is about the agent's user; what the login may read is not evidence against it.
func deniedToAgent(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if f.Cert == nil || f.Cert.DeniedFile == "" {
		return nil, ""
	}
	return f, fmt.Sprintf("the agent's user %d may not read %s", f.Cert.DeniedUID, f.Cert.DeniedFile)
}

// otherNode requires a refusal: the platform decides which node a certificate is for.
func otherNode(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if f.Cert == nil || f.Cert.NodeBound == nil || *f.Cert.NodeBound || !certificateRefused(c) {
		return nil, ""
	}
	return f, fmt.Sprintf("%s is bound to %s", f.Request.Cert, f.Cert.BoundTo)
}

// certificateRefused reports whether the node's task wait was refused, rather than lost.
func certificateRefused(c *hop.Case) bool {
	w := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)
	s := reading.Status(w)
	return w != nil && !w.Throttled() && (s == 400 || s == 401 || s == 403 || reading.IsMTLS(w.Failure))
}

// unlistedIssuer holds if f's listener lists the CAs that it accepts, and none of them issued the certificate that it
// was sent. A listed name proves nothing: a CA with a new key may keep the old name.
func unlistedIssuer(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	id := c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity)
	if f.TLS == nil || len(f.TLS.AcceptableCAs) == 0 || id == nil || id.Cert == nil ||
		f.TLS.CertSent != id.Cert.Leaf.Serial {
		return nil, ""
	}
	for _, link := range append([]diag.CertInfo{id.Cert.Leaf}, id.Cert.Chain...) {
		if slices.Contains(f.TLS.AcceptableCAs, link.Issuer) {
			return nil, ""
		}
	}
	return f, fmt.Sprintf("%s accepts certificates of %s, but was sent one of %s", reading.Where(f),
		hop.Clip(f.TLS.AcceptableCAs), id.Cert.Leaf.Issuer)
}

// foreignCertificate holds if the platform reports that the listener trusts the signing CA: the certificate is then at
// fault, and not the listener's trust.
func foreignCertificate(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if c.Field(diag.HopControlPlaneAccess, hop.StepAuth, "trust.ingress_trusts_signing_ca") != "true" {
		return nil, ""
	}
	return unlistedIssuer(c, f)
}

// platformSaysDrift requires a task wait that was refused because of the drift.
func platformSaysDrift(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if f.HTTP == nil || f.HTTP.Fields["trust.ingress_trusts_signing_ca"] != "false" || !certificateRefused(c) {
		return nil, ""
	}
	return f, "the platform says that the node ingress does not trust the CA that signs node certificates"
}

// listenersDiffer requires that the other listener lets the same certificate in.
func listenersDiffer(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if !world.GatewayAccepts(c) {
		return nil, ""
	}
	return unlistedIssuer(c, f)
}

// neverAsked requires that the profile's listener does ask: some servers ask only once they know the path.
func neverAsked(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if !reading.AsksForNoCert(f) || !reading.AsksForCert(c.FactByID(f.ID+"~"+reading.CounterProfileURL)) ||
		world.AgentEndpointWorks(c) {
		return nil, ""
	}
	return f, reading.Where(f) + " asked for no certificate in its handshake"
}

// decidedAs holds for a refusal by the platform with one of these codes, which stand for its own decisions.
func decidedAs(words ...string) holder {
	return func(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
		word := strings.TrimPrefix(reading.Code(f), "node_")
		if world.LetIn(c, f) != "" || f.Throttled() || reading.Status(f) < 400 || reading.Status(f) >= 500 ||
			!slices.Contains(words, word) {
			return nil, ""
		}
		return f, fmt.Sprintf("the platform refuses this node as %s (HTTP %d)", word, reading.Status(f))
	}
}

// answeredAs holds if the far side answers with one of these codes, about itself or about what it was sent.
func answeredAs(words ...string) holder {
	return func(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
		word := reading.Code(f)
		if word == "" && f.WS != nil {
			word = f.WS.FrameCode
		}
		if !slices.Contains(words, word) {
			return nil, ""
		}
		return f, fmt.Sprintf("%s answers %s (HTTP %d)", reading.Where(f), word, reading.Status(f))
	}
}

// fromPlatform holds for a field of the platform's own data, by which the platform itself decides.
func fromPlatform(field string) holder {
	return func(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
		if f.HTTP == nil || f.HTTP.Fields[field] == "" {
			return nil, ""
		}
		return f, fmt.Sprintf("the platform's %s is %s", field, f.HTTP.Fields[field])
	}
}

// tokenRefused requires a code that only a server with the token in hand gives, of OAuth 2.0 (RFC 6750) or of the
// reference platform. Any other may answer a request whose token an edge removed.
func tokenRefused(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if !world.TokenRead(f) || f.Throttled() || (reading.Status(f) != 401 && reading.Status(f) != 403) {
		return nil, ""
	}
	return f, fmt.Sprintf("the API answers %s (HTTP %d) to the operator's token", reading.Code(f), reading.Status(f))
}

func limited(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if !f.Throttled() || reading.Status(f) == 0 {
		return nil, ""
	}
	return f, fmt.Sprintf("%s answers HTTP %d from its rate limiter", reading.Where(f), reading.Status(f))
}

// edgeGaveUp holds if a proxy reports that its upstream gave no answer. A 503 does not count: it may be a maintenance
// page.
func edgeGaveUp(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if s := reading.Status(f); (s != 502 && s != 504) || f.HTTP.Page != "edge_error" ||
		world.NodeHears(c) != world.SilentSide {
		return nil, ""
	}
	return f, fmt.Sprintf("the edge at %s answers HTTP %d: its upstream gave no valid answer", reading.Where(f),
		reading.Status(f))
}

// otherHostKey has the host key that was presented; a host whose key was never known has another failure.
func otherHostKey(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if f.SSH == nil || f.SSH.HostKeySHA256 == "" {
		return nil, ""
	}
	return f, fmt.Sprintf("the host presents %s %s, but another key is known for it", f.SSH.HostKeyType,
		f.SSH.HostKeySHA256)
}

func notRoot(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if f.SSH == nil || f.SSH.UID == nil || *f.SSH.UID == 0 {
		return nil, ""
	}
	if f.SSH.SudoRefused {
		return f, fmt.Sprintf("sudo -n was refused, so the probes run as uid %d", *f.SSH.UID)
	}
	return f, fmt.Sprintf("what sudo -n started runs as uid %d", *f.SSH.UID)
}

// moved holds if a node's own addresses do not include the dialled one, which is the address that the platform has. A
// public address does not count: it may be that of a NAT.
func moved(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	at := reading.PlainAddress(c.Subject.NodeHost)
	ip, has := net.ParseIP(at), reading.Addresses(world.ReadModel(c, "node.agent_addresses"))
	model := c.Fact(diag.HopNodeHeartbeat, hop.StepReadModel)
	if model == nil || ip == nil || !ip.IsPrivate() || at != reading.PlainAddress(world.ReadModel(c, "node.private_ip")) ||
		f.TCP == nil || reading.RemoteIP(f) != at || len(has) == 0 || slices.Contains(has, at) || !world.ContactFresh(c) ||
		world.AgentAnswered(c) == "" {
		return nil, ""
	}
	return model, fmt.Sprintf("the running agent's addresses are %s, but %s was dialled", hop.Clip(has), at)
}

func heartbeatRefused(c *hop.Case, _ *diag.Fact) (*diag.Fact, string) {
	record, e := c.RecordFact(), world.RefusedHeartbeat(c)
	if record == nil || e == nil || e.Status == 0 || !world.ContactFresh(c) {
		return nil, ""
	}
	return record, fmt.Sprintf("the agent's heartbeats are answered HTTP %d", e.Status)
}

// shellWord holds if the agent reports a fault of user or shell, over a stream that the gateway has in its row, and
// neither stopped nor was replaced meanwhile.
func shellWord(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if f.WS == nil || !world.StreamCame(c) || world.StoppedOpening(f.WS) || world.AgentGone(c) != "" {
		return nil, ""
	}
	switch f.WS.FrameCode {
	case diag.CodeUserMissing, diag.CodeShellMissing, diag.CodeUserRefused, diag.CodePTYFailed, diag.CodePTYExited:
		return f, fmt.Sprintf("the agent answers %s: %s", f.WS.FrameCode, f.WS.FrameMessage)
	}
	return nil, ""
}
