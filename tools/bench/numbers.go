package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// spread summarizes a few measurements.
type spread struct{ median, min, max time.Duration }

// spreadOf needs at least one measurement.
func spreadOf(all []time.Duration) spread {
	s := slices.Sorted(slices.Values(all))
	m := s[len(s)/2]
	if len(s)%2 == 0 {
		m = (s[len(s)/2-1] + s[len(s)/2]) / 2
	}
	return spread{m, s[0], s[len(s)-1]}
}

// percentile returns the smallest measurement that p percent do not exceed. It needs at least one.
func percentile(all []time.Duration, p int) time.Duration {
	s := slices.Sorted(slices.Values(all))
	return s[max(1, (p*len(s)+99)/100)-1]
}

func (s spread) String() string {
	return fmt.Sprintf("%s (%s..%s)", short(s.median), short(s.min), short(s.max))
}

// short formats a duration with about three digits.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 100*time.Millisecond:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.0f µs", d.Seconds()*1e6)
}

// fit is the least-squares line y = slope*x + base through the points, and its goodness of fit.
func fit(xs, ys []float64) (slope, base, r2 float64) {
	n := float64(len(xs))
	var sx, sy, sxx, sxy, syy float64
	for i := range xs {
		sx, sy = sx+xs[i], sy+ys[i]
		sxx, sxy, syy = sxx+xs[i]*xs[i], sxy+xs[i]*ys[i], syy+ys[i]*ys[i]
	}
	slope = (n*sxy - sx*sy) / (n*sxx - sx*sx)
	r := (n*sxy - sx*sy) / math.Sqrt((n*sxx-sx*sx)*(n*syy-sy*sy))
	return slope, (sy - slope*sx) / n, r * r
}

// ownCPU returns the CPU time that this process has used.
func ownCPU() (time.Duration, error) {
	var own unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &own)
	return time.Duration(own.Utime.Nano() + own.Stime.Nano()), err
}
