package golden

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// between matches a sentence's text between backticks.
var between = regexp.MustCompile("`([^`]+)`")

// TestStepsAndOwnersAreTheProse: the machine-readable steps and owners of a verdict equal its prose in every recording,
// even in those made before the fields existed.
func TestStepsAndOwnersAreTheProse(t *testing.T) {
	steps, commands := 0, 0
	for name, r := range walks(t) {
		v, c := &r.Verdict, r.Classification
		owners(t, name, v.Owner, v.Owners)
		for i := range v.OtherFindings {
			owners(t, name, v.OtherFindings[i].Owner, v.OtherFindings[i].Owners)
		}
		if len(v.Steps) != len(v.Recovery) {
			t.Errorf("%s: %d steps, and %d in prose", name, len(v.Steps), len(v.Recovery))
			continue
		}
		for i := range v.Steps {
			n := &v.Steps[i]
			var named []string
			for _, m := range between.FindAllStringSubmatch(v.Recovery[i], -1) {
				named = append(named, m[1])
			}
			if n.Prose() != v.Recovery[i] || !slices.Equal(named, n.Commands()) || n.Text == "" {
				t.Errorf("%s: step %d is %+v, and in prose %q", name, i+1, n, v.Recovery[i])
			}
			steps, commands = steps+1, commands+len(named)
		}
		if c == nil {
			continue
		}
		owners(t, name, c.Owner, c.Owners)
		var next []string
		for _, s := range c.Steps {
			next = append(next, s.Text)
		}
		if strings.Join(next, "; ") != c.Next {
			t.Errorf("%s: the classification's steps are %q, and in prose %q", name, next, c.Next)
		}
	}
	if !testing.Short() && (steps < 100 || commands < 50) {
		t.Errorf("only %d steps with %d commands", steps, commands)
	}
}

func owners(t *testing.T, name, prose string, all diag.Owners) {
	t.Helper()
	if all.String() != prose {
		t.Errorf("%s: the owners are %q, and in prose %q", name, all, prose)
	}
}
