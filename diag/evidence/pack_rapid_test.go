package evidence

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// TestWhateverIsSaidIsPacked: whatever a node reports about a source, and whatever names it gives itself, evidence is
// packed, and the archive opens.
func TestWhateverIsSaidIsPacked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawn := func(what string) string {
			word := rapid.SampledFrom([]string{"a", "é", "\u202e", "\U000f0000", "\x1b", "\xff", "\u2028", "<", `\`, `"`}).
				Draw(t, what)
			return strings.Repeat(word, rapid.SampledFrom([]int{0, 1, 100, maxSaid / 4, maxSaid, bounded.Manifest().Bytes}).
				Draw(t, "times"))
		}
		m := manifest()
		m.InstanceID, m.WorkflowID = drawn("instance"), drawn("workflow")
		for i := range rapid.IntRange(0, 12).Draw(t, "sources") {
			m.Sources = append(m.Sources, Gathered{Source: fmt.Sprint(i), Status: GotPart, Why: drawn("why")})
			m.Files = append(m.Files,
				File{Path: fmt.Sprintf("node/%d.log", i), Source: fmt.Sprint(i), Data: []byte(m.Sources[i].Why)})
		}
		var b bytes.Buffer
		if err := Pack(&b, m); err != nil {
			t.Fatalf("refused: %.200s", err.Error())
		}
		got, err := Open(&b)
		if err != nil {
			t.Fatalf("it was packed, and does not open: %v", err)
		}
		if len(got.Files) != len(m.Files) || len(got.Sources) != len(m.Sources) {
			t.Fatalf("%d files of %d, %d sources of %d", len(got.Files), len(m.Files), len(got.Sources), len(m.Sources))
		}
	})
}
