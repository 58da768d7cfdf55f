package probe

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestImpossibleNumbersOfANodeAreNoMeasurement: a node's answer with a negative or absurd number is not taken for a
// measurement, with the field in the reason; what may be negative is taken.
func TestImpossibleNumbersOfANodeAreNoMeasurement(t *testing.T) {
	for answer, field := range map[string]string{
		`"duration_ms":-9223372036854775808`:                  ".DurationMS",
		`"disk":{"used_percent":-1}`:                          ".Disk.UsedPercent",
		`"unit":{"uptime_s":-1}`:                              ".Unit.UptimeS",
		`"unit":{"restarts":9223372036854775807}`:             ".Unit.Restarts",
		`"clock":{"offset_ms":-9223372036854775808}`:          ".Clock.OffsetMS",
		`"clock":{"offset_ms":-86400000}`:                     "",
		`"duration_ms":3,"unit":{"restarts":0,"uptime_s":12}`: "",
	} {
		c := hostile(t, func(id string) string { return `{"id":"` + id + `",` + answer + `}` })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		f := c.Probe(ctx, asked(1))[0]
		cancel()
		switch measured := f.Failure == diag.OK; {
		case measured != (field == ""), !strings.Contains(f.Detail, field):
			t.Errorf("%s: %q %s", answer, f.Failure, f.Detail)
		case !measured && (f.Disk != nil || f.Unit != nil || f.Clock != nil || f.DurationMS < 0):
			t.Errorf("%s: the numbers are kept: %+v", answer, f)
		}
	}
}
