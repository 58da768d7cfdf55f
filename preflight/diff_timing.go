package preflight

import (
	"slices"
	"strconv"

	"github.com/gpuaas/gpuaasctl/diag"
)

// What tells a slow walk from a noisy one. A time is beyond noise when it is above all of: the slowest kept good walk
// by half, their median by noiseFloor, noiseFactor medians, and the median by noiseSpread robust standard deviations. One of these
// alone cries wolf: a walk has some twenty times, five walks show little of their spread, and tails are long. A test
// counts the false alarms.
const (
	leastRuns   = 5                // kept good walks; fewer say nothing about noise
	noiseFloor  = diag.Millis(100) // what a busy machine at either end takes of its own
	noiseFactor = 3
	noiseSpread = 3      // of madToSigma MAD
	madToSigma  = 1.4826 // makes a median absolute deviation the standard deviation, where noise is normal
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
	for _, s := range spans() { // the phase that grew most says where
		m, b, n := c.bound(now, s)
		if took := s.of(now); n >= leastRuns && took > b && took-m > grown {
			worst, grown, median, bound, runs = s, took-m, m, b, n
		}
	}
	c.add(diag.Change{
		Kind: diag.ChangeTiming, Hop: ofHop(now.ID), Field: worst.field,
		Before: ms(median), After: ms(worst.of(now)), Regression: true,
		Noise: &diag.NoiseBounds{Runs: runs, BoundMS: bound},
	}, now.ID)
}

func ms(d diag.Millis) string { return strconv.FormatInt(int64(d), 10) }

// sample is one time of a fact; 0 where it was not measured.
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

// bound is the median of what good walks took, and the most that is noise. Like is compared with like: the same end, a
// connection of its own or somebody else's, a helper that was there or had to be pushed.
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
		(a.SSH == nil || b.SSH == nil || a.SSH.Helper == b.SSH.Helper && a.SSH.Jump == b.SSH.Jump)
}
