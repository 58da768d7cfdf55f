package cmdutil

import (
	"strings"
	"testing"
)

// TestAReportWithAnImpossibleNumberIsRefused: a file with a negative duration, an absurd count or a year that has no
// four digits is no report.
func TestAReportWithAnImpossibleNumberIsRefused(t *testing.T) {
	for fact, why := range map[string]string{
		`{"duration_ms":-1}`:                         ".Facts[0].DurationMS: -1",
		`{"unit":{"restarts":9223372036854775807}}`:  ".Facts[0].Unit.Restarts",
		`{"at":"9999-12-31T23:59:59-23:59"}`:         "the year 10000",
		`{"at":"0000-01-01T00:00:00+23:59"}`:         "the year -1",
		`{"offset_ms":-5,"clock":{"offset_ms":-70}}`: "",
	} {
		_, err := (&App{}).ParseReport([]byte(`{"facts":[` + fact + `]}`))
		if (err == nil) != (why == "") || (err != nil && !strings.Contains(err.Error(), why)) {
			t.Errorf("%s: %v", fact, err)
		}
	}
}
