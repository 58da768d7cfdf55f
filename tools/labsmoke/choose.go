package main

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/chaos"
)

// row is a fault of TestFaults or a drill of TestDrills or TestBareDrills.
type row struct {
	kind  string // fault or drill
	name  string
	hop   string   // the hop that it must blame; none for a drill that must not be noticed
	bare  bool     // a drill of TestBareDrills
	files []string // whose change makes it due; path#name is one entry of a table
}

func (r row) String() string { return r.kind + ":" + r.name }

// due is a row with those of its files that changed.
type due struct {
	row     row
	changed []string
	why     string // it is left out
}

// selection is what a run tries, and what it leaves out although it is due.
type selection struct {
	due   []due
	left  []due
	drawn []row
}

// rows returns all rows that the run tries.
func (s selection) rows() []row {
	var all []row
	for _, d := range s.due {
		all = append(all, d.row)
	}
	return append(all, s.drawn...)
}

const (
	coveredWhy = "others exercise all that changed"
	boundWhy   = "more are due than a run tries"
)

// choose returns at most `most` rows whose files changed, and draws others by the seed. Of the due rows it takes first
// the one that exercises the most changed files that no other one has exercised, so that few rows exercise all of them.
// Among equals the seed decides, so that no row is always left out.
func choose(changed map[string]bool, rows []row, most, draw int, seed uint64) selection {
	order := make([]row, len(rows))
	for i, n := range (chaos.GameDay{}).Order(len(rows), seed) {
		order[i] = rows[n]
	}
	var s selection
	var open []due
	for _, r := range order {
		d := due{row: r}
		for _, f := range r.files {
			if changed[f] {
				d.changed = append(d.changed, f)
			}
		}
		if len(d.changed) > 0 {
			open = append(open, d)
		}
	}
	covered := map[string]bool{}
	gain := func(d due) (n int) {
		for _, f := range d.changed {
			if !covered[f] {
				n++
			}
		}
		return n
	}
	for len(s.due) < most && len(open) > 0 {
		best := 0
		for i := range open {
			if gain(open[i]) > gain(open[best]) {
				best = i
			}
		}
		if gain(open[best]) == 0 { // once more, by other rows
			clear(covered)
			continue
		}
		for _, f := range open[best].changed {
			covered[f] = true
		}
		s.due = append(s.due, open[best])
		open = slices.Delete(open, best, best+1)
	}
	clear(covered)
	for _, d := range s.due {
		for _, f := range d.changed {
			covered[f] = true
		}
	}
	for _, d := range open {
		d.why = coveredWhy
		if gain(d) > 0 {
			d.why = boundWhy
		}
		s.left = append(s.left, d)
	}
	for _, r := range order {
		if len(s.drawn) == draw {
			break
		}
		if !slices.ContainsFunc(s.due, func(d due) bool { return d.row.String() == r.String() }) {
			s.drawn = append(s.drawn, r)
		}
	}
	return s
}
