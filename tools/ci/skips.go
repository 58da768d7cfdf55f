package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// mayBeSkipped are the accepted reasons for skipping a test when root runs the tests on a machine that has what
// README.md requires, and the packages that the tests install.
var mayBeSkipped = [...]struct {
	reason *regexp.Regexp
	why    string
}{
	{regexp.MustCompile(`needs GPUAASCTL_(LAB|MATRIX)_TESTS=1`), "the lab suite is run by make test-lab"},
	{regexp.MustCompile(`GPUAASCTL_AXE`), "pages are looked at in a browser by make test-html"},
	{regexp.MustCompile(`^root may$`), "what only others than root are refused"},
	{regexp.MustCompile(`needs OpenSSH's sshd`), "its package would start a server on the user's host; run at the end"},
	{regexp.MustCompile(`needs a C compiler`), "gpuaas-gpu-probe is built without NVML there, which is all of it"},
	{regexp.MustCompile(`needs (gcc-aarch64-linux-gnu|qemu-user-static)`),
		"for gpuaas-gpu-probe of another architecture, which make dist builds without NVML there"},
	{regexp.MustCompile(`needs GPUAAS_NVML_LIBRARY`), "a driver's library is brought by hand"},
	{regexp.MustCompile(`needs (libnvidia-\S+|python3-pynvml|nvtop|libncursesw6|python3) \(`),
		"from Debian's contrib and non-free, for gpuaas-gpu-probe with NVML, which is not built there"},
	{regexp.MustCompile(`needs systemd-analyze`), "it comes with the lab's packages; make test-lab runs that test, too"},
}

// lacks reports whether a test was skipped for lack of something that the machine should have.
func (e *ended) lacks() bool {
	for _, may := range mayBeSkipped {
		if may.reason.MatchString(e.reason()) {
			return false
		}
	}
	return true
}

// printSkips prints what was left out by its reason, and returns the tests that lacked something.
func (r *report) printSkips(out io.Writer) (lacking []ended) {
	by := map[string][]string{}
	for _, e := range r.skipped {
		by[e.reason()] = append(by[e.reason()], e.String())
		if e.lacks() {
			lacking = append(lacking, e)
		}
	}
	if len(by) > 0 {
		fmt.Fprintln(out, "\nleft out:")
	}
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		names := by[reason]
		more := ""
		if n := len(names) - 3; n > 0 {
			names, more = names[:3], fmt.Sprintf(" and %d more", n)
		}
		fmt.Fprintf(out, "  %s: %s%s\n", reason, strings.Join(names, ", "), more)
	}
	return lacking
}
