package chaos

import (
	"os"
	"path/filepath"
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
