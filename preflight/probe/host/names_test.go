//go:build linux

package host

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// TestNames: what may be passed to a program as a name, and what is an environment reference, compared with regular
// expressions.
func TestNames(t *testing.T) {
	unit := regexp.MustCompile(`^[A-Za-z0-9:_.\\@][A-Za-z0-9:_.\\@-]{0,254}$`)
	ref := regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
	shards := []string{"a", "Z9", "_", ".", "-", "--", "@", "\\", "$", "${", "}", "{", ":", " ", "\n", "é", "%", "${A}",
		strings.Repeat("x", 127), strings.Repeat("y", 128)}
	r := rand.New(rand.NewPCG(3, 4))
	good := 0
	for range 20_000 {
		var b strings.Builder
		for range r.IntN(5) {
			b.WriteString(shards[r.IntN(len(shards))])
		}
		s := b.String()
		if got, want := isUnitName(s), unit.MatchString(s); got != want {
			t.Errorf("unit name %q: %t", s, got)
		} else if got {
			good++
		}
		want := ref.ReplaceAllStringFunc(s, func(m string) string { return "<" + m[2:len(m)-1] + ">" })
		if got := replaceRefs(s, func(name string) string { return "<" + name + ">" }); got != want {
			t.Errorf("references in %q: %q, want %q", s, got, want)
		}
		if t.Failed() {
			return
		}
	}
	if good < 1000 {
		t.Errorf("only %d good names", good)
	}
}
