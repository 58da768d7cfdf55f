package chaos

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/scenarios"
)

// TestGameDayRefuses: a mistake in a game day is reported with file, line and field, as in a drill.
func TestGameDayRefuses(t *testing.T) {
	const head = "metadata:\n  id: our-day\n  title: x\n"
	for name, tc := range map[string]struct{ text, want string }{
		"unknown field": {head + "drils: [disk-full]\n", `day.yaml:4: drils: unknown field (did you mean "drills"?)`},
		"wrong type":    {head + "drills: disk-full\n", `day.yaml:4: drills: want a list, not "disk-full"`},
		"no unit": {head + "drills: [disk-full]\npause: 5\n",
			`day.yaml:5: pause: want a duration with its unit (30s, 2m), not "5"`},
		"no drills": {head + "drills: []\n", "day.yaml:4: drills: is missing"},
		"too often": {head + "drills: [disk-full]\ntimes: 101\n", "day.yaml:5: times: want 1 to 100"},
		"no such drill": {head + "drills:\n- disk-full\n- disk-ful\n",
			`day.yaml:6: drills[1]: no drill "disk-ful" (did you mean "disk-full"?)`},
		"no such file":    {head + "drills: [./none.yaml]\n", "day.yaml:4: drills[0]: read drill:"},
		"a wrong drill":   {head + "drills: [./wrong.yaml]\n", "wrong.yaml:1: evidence: is missing"},
		"a name":          {"metadata: {id: Our Day}\ndrills: [disk-full]\n", "day.yaml:1: metadata.id: "},
		"two of one name": {head + "drills: [disk-full, ./disk-full.yaml]\n", "are both called disk-full"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			own, err := scenarios.Files.ReadFile("disk-full.yaml")
			if err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{"day.yaml": tc.text, "wrong.yaml": "metadata: {id: wrong, title: x}\n",
				"disk-full.yaml": string(own)} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, _, err = FindGameDay(scenarios.Files, filepath.Join(dir, "day.yaml"))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v\nwant %s", err, tc.want)
			}
		})
	}
}

// TestGameDayOrder: every round has each drill once, as often as the file says, and once if it says nothing.
func TestGameDayOrder(t *testing.T) {
	for times, want := range map[int]int{0: 1, 1: 1, 3: 3} {
		order := GameDay{Times: times}.Order(5, 7)
		if len(order) != want*5 || !slices.Equal(order, GameDay{Times: times}.Order(5, 7)) {
			t.Errorf("%d times: %v", times, order)
		}
		for round := range want {
			if got := slices.Sorted(slices.Values(order[round*5 : round*5+5])); !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
				t.Errorf("%d times, round %d: %v", times, round, got)
			}
		}
	}
}

// TestGameDayRules: the rules about a game day's file, with their bounds; want is the key of the only problem.
func TestGameDayRules(t *testing.T) {
	for _, tc := range []struct {
		change func(b *GameDay)
		want   string
	}{
		{func(*GameDay) {}, ""}, {func(b *GameDay) { b.Times = 100 }, ""}, {func(b *GameDay) { b.Times = 101 }, "times"},
		{func(b *GameDay) { b.Times = -1 }, "times"}, {func(b *GameDay) { b.Pause = -1 }, "pause"},
		{func(b *GameDay) { b.Pause = 1 }, ""}, {func(b *GameDay) { b.Drills = nil }, "drills"},
		{func(b *GameDay) { b.Metadata.ID = strings.Repeat("a", 48) }, ""},
		{func(b *GameDay) { b.Metadata.ID = strings.Repeat("a", 49) }, "metadata.id"},
		{func(b *GameDay) { b.Metadata.ID = "A" }, "metadata.id"},
		{func(b *GameDay) { b.Metadata.Title = "a\nb" }, "metadata.title"},
	} {
		b := GameDay{Metadata: BookMetadata{ID: "a", Title: "A day"}, Drills: []string{"x"}}
		tc.change(&b)
		found := b.settle()
		if (len(found) == 0) != (tc.want == "") || len(found) > 1 || (len(found) == 1 && found[0].Key != tc.want) {
			t.Errorf("%+v: %v, want %q", b, found, tc.want)
		}
	}
}
