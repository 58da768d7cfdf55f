package preflight

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// facts compares what was measured. Counter-probes are not compared: a walk makes them only where something failed.
func (c *comparison) facts() {
	was, is := byFact(c.base.Facts), byFact(c.now.Facts)
	timed := len(c.good) >= leastRuns
	for i := range c.now.Facts {
		after := &c.now.Facts[i]
		if strings.Contains(after.ID, "~") {
			continue
		}
		before := was[after.ID]
		if before == nil {
			c.skip(diag.NotCompared{Hop: ofHop(after.ID), Fact: after.ID, What: "fact", Because: "not measured in the baseline"})
			continue
		}
		c.fact(before, after)
		if timed && (c.here || after.Vantage != Operator) {
			c.timing(after)
		}
	}
	for i := range c.base.Facts {
		if before := &c.base.Facts[i]; is[before.ID] == nil && !strings.Contains(before.ID, "~") {
			c.skip(diag.NotCompared{Hop: ofHop(before.ID), Fact: before.ID, What: "fact", Because: "not measured now"})
		}
	}
	if !timed {
		c.skip(diag.NotCompared{
			What:    "timing",
			Because: "not enough runs: " + strconv.Itoa(len(c.good)) + " kept good walks, at least " + strconv.Itoa(leastRuns) + " tell noise from news",
		})
	}
}

// fact compares one measurement. Where it was sent elsewhere, that is the change, and the rest is another thing.
func (c *comparison) fact(before, after *diag.Fact) {
	if from, to := whereTo(before), whereTo(after); from != to {
		c.add(diag.Change{Kind: diag.ChangeEndpoint, Hop: ofHop(after.ID), Field: "target", Before: from, After: to, Known: c.known(after.ID, func(f *diag.Fact) bool { return whereTo(f) == to })}, after.ID)
		c.skip(diag.NotCompared{Hop: ofHop(after.ID), Fact: after.ID, What: "fact", Because: "it asks " + to + " now, and asked " + from})
		return
	}
	var gone []string
	now := traits(after)
	for _, was := range traits(before) {
		if !c.here && after.Vantage == Operator && (was.kind == diag.ChangeRoute || was.kind == diag.ChangeResolver) {
			continue
		}
		i := slices.IndexFunc(now, func(t trait) bool { return t.field == was.field })
		if i < 0 {
			if section := was.section(); !has(now, section) && !slices.Contains(gone, section) {
				gone = append(gone, section)
			}
			continue
		}
		if now[i].value == was.value {
			continue
		}
		c.add(diag.Change{
			Kind: was.kind, Hop: ofHop(after.ID), Field: was.field, Before: was.value, After: now[i].value,
			Known:      c.seen(after.ID, now[i]),
			Regression: worseTrait(was, now[i], before, after),
		}, after.ID)
	}
	if len(gone) > 0 {
		why := "not measured now"
		if after.Failure != diag.OK {
			why += ": " + after.Failure.Words() + " in " + after.Phase
		}
		c.skip(diag.NotCompared{Hop: ofHop(after.ID), Fact: after.ID, What: strings.Join(gone, ", "), Because: why})
	}
}

// known reports whether a kept good walk's fact is as it should be.
func (c *comparison) known(id string, is func(*diag.Fact) bool) bool {
	return slices.ContainsFunc(c.good, func(run map[string]*diag.Fact) bool { return run[id] != nil && is(run[id]) })
}

// seen reports whether kept good walks have seen a trait. Of a name's addresses each may have been in another answer: a
// pool gives some of them each time.
func (c *comparison) seen(id string, t trait) bool {
	if t.field != fieldAddresses {
		return c.known(id, func(f *diag.Fact) bool { return slices.Contains(traits(f), t) })
	}
	for address := range strings.FieldsSeq(t.value) {
		if !c.known(id, func(f *diag.Fact) bool { return f.DNS != nil && slices.Contains(f.DNS.Addresses, address) }) {
			return false
		}
	}
	return true
}

// whereTo is what a fact was measured at: of a URL only scheme and host, since paths hold ids of single runs; of a file,
// a unit or a user all of it.
func whereTo(f *diag.Fact) string {
	target := f.Target
	if target == "" {
		target = f.Request.Target
	}
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host
	}
	return target
}

// worseTrait says that a change of GateWorse is one for the worse: an older protocol, another program under the same
// version, a credential's generation that runs backwards.
func worseTrait(was, is trait, before, after *diag.Fact) bool {
	switch {
	case was.kind == diag.ChangeTLSVersion:
		return is.value < was.value // "TLS 1.2" < "TLS 1.3"
	case was.field == "http.fields.node.cert_generation":
		a, errA := strconv.Atoi(was.value)
		b, errB := strconv.Atoi(is.value)
		return errA == nil && errB == nil && b < a
	case was.kind == diag.ChangeAgentBuild && before.Binary != nil && after.Binary != nil:
		return was.field != "binary.version" && before.Binary.Version != "" && before.Binary.Version == after.Binary.Version
	}
	return false
}

func has(ts []trait, section string) bool {
	return slices.ContainsFunc(ts, func(t trait) bool { return t.section() == section })
}
