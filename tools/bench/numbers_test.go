package main

import (
	"math"
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	s := spreadOf([]time.Duration{5, 1, 9})
	if s != (spread{5, 1, 9}) {
		t.Errorf("odd: %+v", s)
	}
	if s := spreadOf([]time.Duration{4, 8}); s.median != 6 {
		t.Errorf("even: median %d, want 6", s.median)
	}
}

func TestFit(t *testing.T) {
	slope, base, r2 := fit([]float64{0, 20, 50, 100}, []float64{7, 227, 557, 1107})
	if math.Abs(slope-11) > 1e-9 || math.Abs(base-7) > 1e-9 || math.Abs(r2-1) > 1e-9 {
		t.Errorf("slope %g base %g R2 %g, want 11, 7, 1", slope, base, r2)
	}
	if _, _, r2 := fit([]float64{0, 1, 2, 3}, []float64{5, -5, 5, -5}); r2 > 0.5 {
		t.Errorf("noise fits with R2 %g", r2)
	}
}
