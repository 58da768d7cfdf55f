package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// bestFile has the best value that each kept figure has ever had: ratios and round trips, which a slow machine does not
// change.
var bestFile = filepath.Join("tools", "bench", "best.yaml")

// The units of kept figures. More of a ratio is better, and fewer round trips are.
const (
	unitRatio = "x"
	unitTrips = "round trips"
)

// noise is how far a ratio falls back by chance, as a share of the best one, and tripNoise how many round trips are
// lost by chance in a slope.
const noise, tripNoise = 0.05, 0.5

// kept is a row of the file.
type kept struct {
	Figure string  `yaml:"figure"`
	Best   float64 `yaml:"best"`
	Unit   string  `yaml:"unit"`
	Since  string  `yaml:"since"` // day of the measurement
}

// figure is a measured value that is kept.
type figure struct {
	name, unit string
	value      float64
}

// keep adds a value to be compared with the best one.
func (t *table) keep(name string, value float64, unit string) {
	t.figures = append(t.figures, figure{name, unit, value})
}

// lost returns by how much f is worse than the best value, in words; "" if it is not, or only by chance.
func (k kept) lost(f figure) string {
	if f.unit == unitTrips {
		if more := f.value - k.Best; more >= tripNoise {
			return fmt.Sprintf("%.1f more", more)
		}
		return ""
	}
	if less := 1 - f.value/k.Best; less > noise {
		return fmt.Sprintf("%.0f %% less", 100*less)
	}
	return ""
}

// better reports whether f is better than the best value so far, as it is printed.
func (k kept) better(f figure) bool {
	if f.unit == unitTrips {
		return round(f.value) < k.Best
	}
	return round(f.value) > k.Best
}

func round(v float64) float64 { return float64(int(v*10+0.5)) / 10 }

// readBest returns the rows of the file, each with a name of its own, a unit that is known, and a value.
func readBest(path string) ([]kept, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := yaml.NewDecoder(strings.NewReader(string(data)))
	d.KnownFields(true)
	var all []kept
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	seen := map[string]bool{}
	for _, k := range all {
		if seen[k.Figure] || k.Figure == "" || k.Best <= 0 || (k.Unit != unitRatio && k.Unit != unitTrips) {
			return nil, fmt.Errorf("read %s: the row %q is there twice, or has no value or no unit", path, k.Figure)
		}
		seen[k.Figure] = true
	}
	return all, nil
}

// compareBest adds what the measured figures are beside the best ones, and names those that fell back. With update, the
// file gets what is better, and what it did not have.
func (t *table) compareBest(path string, update bool) error {
	if len(t.figures) == 0 {
		return nil
	}
	all, err := readBest(path)
	if err != nil {
		return err
	}
	t.section = "beside the best figures so far (" + filepath.ToSlash(path) + ")"
	day := t.Began.UTC().Format(time.DateOnly)
	var fell []string
	for _, f := range t.figures {
		value := fmt.Sprintf("%.1f %s", f.value, f.unit)
		i := slices.IndexFunc(all, func(k kept) bool { return k.Figure == f.name })
		if i < 0 {
			t.Lines = append(t.Lines, line{Section: t.section, What: f.name, Value: value, Against: "new"})
			all = append(all, kept{f.name, round(f.value), f.unit, day})
			continue
		}
		k := &all[i]
		l := line{Section: t.section, What: f.name, Value: value, Goal: fmt.Sprintf("best %.1f (%s)", k.Best, k.Since)}
		switch lost := k.lost(f); {
		case lost != "":
			l.Against = "FELL BACK: " + lost
			fell = append(fell, fmt.Sprintf("%s (%s, best %.1f)", f.name, value, k.Best))
		case k.better(f):
			l.Against = "better than ever"
			k.Best, k.Since = round(f.value), day
		}
		t.Lines = append(t.Lines, l)
	}
	if len(fell) > 0 {
		t.remark("FELL BACK behind the best so far: " + strings.Join(fell, "; "))
	}
	if !update {
		return nil
	}
	return writeBest(path, all)
}

// writeBest writes the rows below the comment with which the file begins.
func writeBest(path string, all []kept) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var head strings.Builder
	for l := range strings.Lines(string(old)) {
		if !strings.HasPrefix(l, "#") {
			break
		}
		head.WriteString(l)
	}
	slices.SortStableFunc(all, func(a, b kept) int { return cmp.Compare(a.Figure, b.Figure) })
	rows, err := yaml.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append([]byte(head.String()), rows...), 0o644)
}
