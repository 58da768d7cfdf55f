package profile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// nearest suggests the known word that is closest to an unknown one, as ` (did you mean "x"?)`, or nothing where none
// is close. A word that is given as unknown is never suggested: it may be known in another place.
func nearest(word string, known []string) string {
	best, bestAway := "", max(2, len(word)/3)+1
	for _, k := range known {
		if k == word {
			continue
		}
		away := distance(word, k)
		if len(word) > 3 && strings.HasPrefix(k, word) { // the beginning of a long name is a good try
			away = min(away, 2)
		}
		if away < bestAway {
			best, bestAway = k, away
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// distance is the number of bytes to insert, remove or replace that makes a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// Nearest suggests the known word that is closest to an unknown one, as ` (did you mean "x"?)`, or nothing where none is
// close: files that are not profiles make the same mistakes.
func Nearest(word string, known []string) string { return nearest(word, known) }

// nearMost is how many names a message about an unknown one offers.
const nearMost = 5

// NearestOf is at most five of the known words, the closest to word first, and those equally close in order.
func NearestOf(word string, known []string) []string {
	all := slices.Sorted(slices.Values(known))
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(distance(word, a), distance(word, b)) })
	return all[:min(len(all), nearMost)]
}

// OtherNodes offers names in place of a node that this profile lacks: "a, b, c", "" where it has the node, or none at
// all.
func (p *Profile) OtherNodes(id string) string {
	if _, listed := p.Nodes[id]; listed {
		return ""
	}
	return strings.Join(NearestOf(id, slices.Collect(maps.Keys(p.Nodes))), ", ")
}
