package golden

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// informs are the flags and counts that change nothing by themselves, by the reason.
var informs = map[string][]string{
	"the probe gives the fact a failure with it": {"cert.key_matches", "tcp.refused_here", "user.home_ok", "user.shell_ok",
		"ws.status", "gpu.count.failed", "gpu.count.not_supported", "gpu.nvml.failed", "gpu.nvml.not_supported"},
	"it counts beside another value of the fact": {"clock.error_ms", "clock.uptime_s", "dns.rotates", "dns.unset",
		"gpu.cuda.failed", "gpu.cuda.not_supported", "gpu.driver.failed", "gpu.driver.not_supported", "gpu.earlier_boot",
		"gpu.error_count", "gpu.gpus.handle.failed", "gpu.gpus.handle.not_supported", "gpu.gpus.mig_instances",
		"gpu.kernel_log.read_on", "record.missing", "record.pinned.status", "record.slots", "record.valid",
		"ssh.not_offered", "unit.later.after_ms", "unit.max_open_files", "unit.recent.count", "unit.recent.within_s",
		"unit.uptime_s"},
	"it says which one, how much or how it was done": {"binary.size", "disk.written_bytes", "gpu.count.value",
		"gpu.cuda.value", "gpu.gpus.handle.value", "gpu.gpus.index", "http.polls", "record.entries.attempt",
		"record.entries.ceiling_ms", "record.entries.delay_ms", "record.entries.generation", "record.entries.mono_ns",
		"record.pinned.attempt", "record.pinned.ceiling_ms", "record.pinned.delay_ms", "record.pinned.generation",
		"record.pinned.mono_ns", "tcp.ahead", "unit.later.pid", "user.uid", "ws.ping_ms"},
}

// place is what a value's name has of the fact at hand: an index, the name of a field of an answer, what was changed.
var place = regexp.MustCompile(`\[\d+\]`)

// TestNoMeasuredTroubleIsDropped: a flag that is turned, or a count that grows, in a fact of any recording changes a
// status or a text. One that changes none in all recordings was measured and dropped, unless it is listed.
func TestNoMeasuredTroubleIsDropped(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, values := range informs {
		for _, value := range values {
			listed[value] = true
		}
	}
	matters, files := map[string]bool{}, recordings(t)
	if testing.Short() {
		files = some(files)
	}
	for _, path := range files {
		r := recorded(t, path)
		was := said(t, judged(t, r))
		for i := range r.Facts {
			for k, n := 0, len(pointsOf(&r.Facts[i])); k < n; k++ {
				changed := *copyOf(&r.Facts[i])
				p := pointsOf(&changed)[k]
				value, isTurned := strings.CutSuffix(p.name, " turned")
				value, grows := strings.CutSuffix(value, " much more")
				if value = place.ReplaceAllString(value, ""); (!isTurned && !grows) || strings.HasPrefix(value, "http.fields.") ||
					matters[value] {
					continue
				}
				p.change()
				other := *r
				other.Facts = append(append([]diag.Fact{}, r.Facts[:i]...), changed)
				other.Facts = append(other.Facts, r.Facts[i+1:]...)
				matters[value] = said(t, judged(t, &other)) != was
			}
		}
	}
	for value, does := range matters {
		switch {
		case !does && !listed[value] && !testing.Short(): // a sample may not have where it matters
			t.Errorf("%s changes no status and no text in any recording: say it, or list what it is for", value)
		case does && listed[value]:
			t.Errorf("%s is listed as a value that changes nothing, and does", value)
		}
	}
}

// said is all that a report has apart from its facts and times.
func said(t *testing.T, r *diag.Report) string {
	t.Helper()
	hops := append([]diag.HopResult{}, r.Hops...)
	for i := range hops {
		hops[i].DurationMS = 0
	}
	text, err := json.Marshal([]any{hops, r.Verdict, r.Classification})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
