package compare

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// facts compares the measurements. Counter-probes are not compared: a walk makes them only after a failure.
func (c *comparison) facts() {
	was, is := diag.FactsByID(c.base.Facts), diag.FactsByID(c.now.Facts)
	timed := len(c.good) >= leastRuns
	for i := range c.now.Facts {
		after := &c.now.Facts[i]
		if strings.Contains(after.ID, "~") {
			continue
		}
		before := was[after.ID]
		if before == nil {
			c.skip(diag.NotCompared{Hop: hop.OfFact(after.ID), Fact: after.ID, What: "fact",
				Because: "not measured in the baseline"})
			continue
		}
		c.fact(before, after)
		if timed && (c.here || after.Vantage != hop.Operator) {
			c.timing(after)
		}
	}
	for i := range c.base.Facts {
		if before := &c.base.Facts[i]; is[before.ID] == nil && !strings.Contains(before.ID, "~") {
			c.skip(diag.NotCompared{Hop: hop.OfFact(before.ID), Fact: before.ID, What: "fact", Because: "not measured now"})
		}
	}
	if !timed {
		c.skip(diag.NotCompared{
			What: "timing",
			Because: "not enough runs: " + strconv.Itoa(len(c.good)) + " kept good walks, at least " + strconv.Itoa(leastRuns) +
				" tell noise from news",
		})
	}
}

// fact compares one measurement. If it was sent to another target, only that is a change: the rest measures something
// else.
func (c *comparison) fact(before, after *diag.Fact) {
	if from, to := whereTo(before), whereTo(after); from != to {
		c.add(diag.Change{Kind: diag.ChangeEndpoint, Hop: hop.OfFact(after.ID), Field: "target", Before: from, After: to,
			Known: c.known(after.ID, func(f *diag.Fact) bool { return whereTo(f) == to })}, after.ID)
		c.skip(diag.NotCompared{Hop: hop.OfFact(after.ID), Fact: after.ID, What: "fact",
			Because: "it asks " + to + " now, and asked " + from})
		return
	}
	var gone []string
	now := after.Properties()
	for _, was := range before.Properties() {
		if !c.here && after.Vantage == hop.Operator && (was.Kind == diag.ChangeRoute || was.Kind == diag.ChangeResolver) {
			continue
		}
		i := slices.IndexFunc(now, func(t diag.Property) bool { return t.Field == was.Field })
		if i < 0 {
			if section := was.Section(); !has(now, section) && !slices.Contains(gone, section) {
				gone = append(gone, section)
			}
			continue
		}
		if now[i].Value == was.Value {
			continue
		}
		c.add(diag.Change{
			Kind: was.Kind, Hop: hop.OfFact(after.ID), Field: was.Field, Before: was.Value, After: now[i].Value,
			Known:      c.seen(after.ID, now[i]),
			Regression: worseProperty(was, now[i], before, after),
		}, after.ID)
	}
	if len(gone) > 0 {
		why := "not measured now"
		if after.Failure != diag.OK {
			why += ": " + after.Failure.Words() + " in " + after.Phase
		}
		c.skip(diag.NotCompared{Hop: hop.OfFact(after.ID), Fact: after.ID, What: strings.Join(gone, ", "), Because: why})
	}
}

// known reports whether a kept good walk's fact satisfies is.
func (c *comparison) known(id string, is func(*diag.Fact) bool) bool {
	return slices.ContainsFunc(c.good, func(run map[string]*diag.Fact) bool { return run[id] != nil && is(run[id]) })
}

// seen reports whether kept good walks have seen a property. Each of a name's addresses may come from another answer: a
// pool gives some of them each time.
func (c *comparison) seen(id string, t diag.Property) bool {
	if t.Field != diag.PropertyAddresses {
		return c.known(id, func(f *diag.Fact) bool { return slices.Contains(f.Properties(), t) })
	}
	for address := range strings.FieldsSeq(t.Value) {
		if !c.known(id, func(f *diag.Fact) bool { return f.DNS != nil && slices.Contains(f.DNS.Addresses, address) }) {
			return false
		}
	}
	return true
}

// whereTo returns the target of a fact: of a URL only scheme and host, since paths hold ids of single runs; of a file,
// a unit or a user all of it.
func whereTo(f *diag.Fact) string {
	target := cmp.Or(f.Target, f.Request.Target)
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host
	}
	return target
}

// worseProperty reports whether a change of GateWorse is a regression: an older protocol, another program of the same
// version, fewer GPUs, a credential's generation that decreased.
func worseProperty(was, is diag.Property, before, after *diag.Fact) bool {
	switch {
	case was.Kind == diag.ChangeTLSVersion:
		return is.Value < was.Value // "TLS 1.2" < "TLS 1.3"
	case was.Field == "http.fields.node.cert_generation":
		a, errA := strconv.Atoi(was.Value)
		b, errB := strconv.Atoi(is.Value)
		return errA == nil && errB == nil && b < a
	case was.Kind == diag.ChangeGPULess:
		return fewer(was.Value, is.Value)
	case was.Kind == diag.ChangeAgentBuild && before.Binary != nil && after.Binary != nil:
		return was.Field != "binary.version" && before.Binary.Version != "" && before.Binary.Version == after.Binary.Version
	}
	return false
}

// fewer reports whether a count decreased. A count that differs between GPUs now, and did not before, has decreased.
func fewer(was, is string) bool {
	a, errA := strconv.Atoi(was)
	b, errB := strconv.Atoi(is)
	return errA == nil && (errB != nil || b < a)
}

func has(ts []diag.Property, section string) bool {
	return slices.ContainsFunc(ts, func(t diag.Property) bool { return t.Section() == section })
}

// These bounds distinguish a slow walk from a noisy one. A time is a regression if it exceeds all of: the slowest kept
// good walk by half, their median by noiseFloor, noiseFactor medians, and the median by noiseSpread robust standard
// deviations. One bound alone gives false alarms: a walk has some twenty times, five walks show little of their spread,
// and tails are long. A test counts the false alarms.
const (
	leastRuns   = 5                // kept good walks; fewer do not show the noise
	noiseFloor  = diag.Millis(100) // the delay of a busy machine at either end
	noiseFactor = 3
	noiseSpread = 3      // robust standard deviations, of madToSigma MAD each
	madToSigma  = 1.4826 // scales a median absolute deviation to the standard deviation of normal noise
)

// timing compares one fact's time with those of the kept good walks.
func (c *comparison) timing(now *diag.Fact) {
	if now.DurationMS == 0 {
		return
	}
	whole := sample{field: "duration_ms", of: func(f *diag.Fact) diag.Millis { return f.DurationMS }}
	median, bound, runs := c.bound(now, whole)
	if runs < leastRuns || now.DurationMS <= bound {
		return
	}
	worst := whole
	var grown diag.Millis
	for _, s := range spans() { // the phase that grew most is the location
		m, b, n := c.bound(now, s)
		if took := s.of(now); n >= leastRuns && took > b && took-m > grown {
			worst, grown, median, bound, runs = s, took-m, m, b, n
		}
	}
	c.add(diag.Change{
		Kind: diag.ChangeTiming, Hop: hop.OfFact(now.ID), Field: worst.field,
		Before: ms(median), After: ms(worst.of(now)), Regression: true,
		Noise: &diag.NoiseBounds{Runs: runs, BoundMS: bound},
	}, now.ID)
}

// MayRegress reports whether Diff could call anything in now a regression from good, whatever other kept walks contain:
// those can only show that a change was seen before, and usual durations. No bound of a time is less than half above
// one of them, nor less than noiseFloor.
func MayRegress(good, now *diag.Report) bool {
	d := Diff(good, now, []*diag.Report{good})
	if !d.Comparable {
		return false
	}
	was := diag.FactsByID(good.Facts)
	return d.Regressions() > 0 || slices.ContainsFunc(now.Facts, func(f diag.Fact) bool {
		g := was[f.ID]
		steady := g != nil && alike(g, &f) && f.DurationMS <= g.DurationMS+g.DurationMS/2
		return f.DurationMS > noiseFloor && !steady
	})
}

func ms(d diag.Millis) string { return strconv.FormatInt(int64(d), 10) }

// sample is one time of a fact; of returns 0 if it was not measured.
type sample struct {
	field string
	of    func(*diag.Fact) diag.Millis
}

func spans() []sample {
	return []sample{
		{"dns.duration_ms", func(f *diag.Fact) diag.Millis {
			return in(f.DNS, func(d *diag.DNSFacts) diag.Millis { return d.DurationMS })
		}},
		{"tcp.duration_ms", func(f *diag.Fact) diag.Millis {
			return in(f.TCP, func(d *diag.TCPFacts) diag.Millis { return d.DurationMS })
		}},
		{"tls.duration_ms", func(f *diag.Fact) diag.Millis {
			return in(f.TLS, func(d *diag.TLSFacts) diag.Millis { return d.DurationMS })
		}},
		{"http.duration_ms", func(f *diag.Fact) diag.Millis {
			return in(f.HTTP, func(d *diag.HTTPFacts) diag.Millis { return d.DurationMS })
		}},
		{"ws.first_frame_ms", func(f *diag.Fact) diag.Millis {
			return in(f.WS, func(d *diag.WSFacts) diag.Millis { return d.FirstFrameMS })
		}},
		{"pty.first_byte_ms", func(f *diag.Fact) diag.Millis {
			return in(f.PTY, func(d *diag.PTYFacts) diag.Millis { return d.FirstByteMS })
		}},
		{"ssh.banner_ms", func(f *diag.Fact) diag.Millis {
			return in(f.SSH, func(d *diag.SSHFacts) diag.Millis { return d.BannerMS })
		}},
		{"ssh.auth_ms", func(f *diag.Fact) diag.Millis {
			return in(f.SSH, func(d *diag.SSHFacts) diag.Millis { return d.AuthMS })
		}},
		{"ssh.exec_ms", func(f *diag.Fact) diag.Millis {
			return in(f.SSH, func(d *diag.SSHFacts) diag.Millis { return d.ExecMS })
		}},
	}
}

func in[T any](section *T, of func(*T) diag.Millis) diag.Millis {
	if section == nil {
		return 0
	}
	return of(section)
}

// bound returns the median of what good walks took, and the largest time that is noise. Only similar facts are
// compared: the same result, a new or a reused connection, a helper that was there or had to be pushed.
func (c *comparison) bound(now *diag.Fact, s sample) (median, bound diag.Millis, runs int) {
	var took []diag.Millis
	for _, run := range c.good {
		if f := run[now.ID]; f != nil && alike(f, now) && s.of(f) > 0 {
			took = append(took, s.of(f))
		}
	}
	if len(took) < leastRuns {
		return 0, 0, len(took)
	}
	slices.Sort(took)
	median = took[len(took)/2]
	off := make([]diag.Millis, len(took))
	for i, t := range took {
		off[i] = max(t-median, median-t)
	}
	slices.Sort(off)
	spread := diag.Millis(noiseSpread * madToSigma * float64(off[len(off)/2]))
	slowest := took[len(took)-1]
	return median, max(slowest+slowest/2, median+max(noiseFloor, spread), noiseFactor*median), len(took)
}

func alike(a, b *diag.Fact) bool {
	return a.Failure == b.Failure && a.Phase == b.Phase &&
		(a.TCP != nil && a.TCP.Reused) == (b.TCP != nil && b.TCP.Reused) &&
		(a.TCP != nil && a.TCP.Ahead) == (b.TCP != nil && b.TCP.Ahead) &&
		(a.SSH == nil || b.SSH == nil || (a.SSH.Helper == b.SSH.Helper && a.SSH.Jump == b.SSH.Jump))
}
