package verdict

import (
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// detail is what the deciding fact of a blame may show beside its failure.
type detail struct {
	is    diag.Detail
	shown func(c *hop.Case, f *diag.Fact) bool
}

// details has a row for every word: steps are chosen by them.
var details = [...]detail{
	{diag.DetailMasked, func(_ *hop.Case, f *diag.Fact) bool { return f.Unit != nil && f.Unit.Load == "masked" }},
	{diag.DetailFrozen, func(_ *hop.Case, f *diag.Fact) bool { return f.Unit != nil && f.Unit.ProcessState == "frozen" }},
	{diag.DetailDenyingRoute, func(_ *hop.Case, f *diag.Fact) bool { return f.Denial != nil && f.Denial.Route != "" }},
	{diag.DetailDenyingFilter, func(_ *hop.Case, f *diag.Fact) bool {
		return f.Denial != nil && f.Denial.Route == "" && len(f.Denial.PacketFilters) > 0
	}},
	{diag.DetailOtherCAAlike, otherCAAlike},
	{diag.DetailSearchList, func(_ *hop.Case, f *diag.Fact) bool { return reading.CompletedName(f) != "" }},
	{diag.DetailNoIssuer, func(_ *hop.Case, f *diag.Fact) bool {
		return f.TLS != nil && f.TLS.Flaw == diag.FlawNoIssuer
	}},
	{diag.DetailNotForClients, func(c *hop.Case, _ *diag.Fact) bool { return world.NotForClients(c) != "" }},
	{diag.DetailTokenLost, func(c *hop.Case, f *diag.Fact) bool { return world.TokenLost(c, f) != "" }},
	{diag.DetailProxy, func(_ *hop.Case, f *diag.Fact) bool {
		return f.Proxy != "" && reading.InPhase(f, "dns", "tcp", "tls")
	}},
	{diag.DetailTLSStall, stalledIn("tls")},
	{diag.DetailBannerStall, stalledIn("banner")},
	{diag.DetailKeyStall, stalledIn("host_key")},
	{diag.DetailAuthStall, stalledIn("auth")},
	{diag.DetailExecStall, stalledIn("exec")},
}

func stalledIn(phase string) func(*hop.Case, *diag.Fact) bool {
	return func(_ *hop.Case, f *diag.Fact) bool { return f.Failure == diag.Timeout && reading.InPhase(f, phase) }
}

// otherCAAlike reports whether the server's certificate is as unknown to the profile's own CA as to the bundle of the
// deciding fact.
func otherCAAlike(c *hop.Case, f *diag.Fact) bool {
	q := hop.RequestOf(c, f.ID, reading.CounterActiveBundle)
	return f.Failure == diag.TLSUnknownCA && q != nil &&
		q.All(func(r *diag.Fact) bool { return reading.FailsAlike(r, f) })
}

// detailsOf lists what the deciding fact of a blame shows.
func detailsOf(c *hop.Case, f *diag.Fact) (all []diag.Detail) {
	for i := range details {
		if f != nil && details[i].shown(c, f) {
			all = append(all, details[i].is)
		}
	}
	return all
}
