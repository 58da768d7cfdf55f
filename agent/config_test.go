package agent

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/agent/terminal"
)

// TestTerminalLimits: a limit that systemd would reject is rejected at the start, with its key, and not at every
// terminal.
func TestTerminalLimits(t *testing.T) {
	read := func(key, value string) (terminal.Limits, string) {
		var errs []error
		limits := terminalLimits(func(k string) string {
			if k == key {
				return value
			}
			return ""
		}, &errs)
		if len(errs) > 0 {
			return limits, errs[0].Error()
		}
		return limits, ""
	}
	set := func(change func(*terminal.Limits)) terminal.Limits {
		l := terminal.DefaultLimits()
		change(&l)
		return l
	}
	for _, tc := range []struct {
		key, value string
		want       terminal.Limits
	}{
		{"", "", terminal.DefaultLimits()},
		{KeyTerminalTasks, "512", set(func(l *terminal.Limits) { l.TasksMax = "512" })},
		{KeyTerminalTasks, "infinity", set(func(l *terminal.Limits) { l.TasksMax = "infinity" })},
		{KeyTerminalMemory, "64G", set(func(l *terminal.Limits) { l.MemoryMax = "64G" })},
		{KeyTerminalMemory, "50%", set(func(l *terminal.Limits) { l.MemoryMax = "50%" })},
		{KeyTerminalMemory, "1073741824", set(func(l *terminal.Limits) { l.MemoryMax = "1073741824" })},
		{KeyTerminalCPU, "10000", set(func(l *terminal.Limits) { l.CPUWeight = "10000" })},
	} {
		if got, err := read(tc.key, tc.value); err != "" || got != tc.want {
			t.Errorf("%s=%s: %+v %s", tc.key, tc.value, got, err)
		}
	}
	for key, values := range map[string][]string{
		KeyTerminalTasks:  {"0", "-1", "5000000", "50%", "1 2", "512\nUser=root", "G"},
		KeyTerminalMemory: {"0", "0G", "101%", "64GB", "G", "%", "1.5G", "2^60", "99999999999999999999"},
		KeyTerminalCPU:    {"0", "10001", "infinity", "50%"},
	} {
		for _, v := range values {
			if got, err := read(key, v); !strings.Contains(err, key) || got != terminal.DefaultLimits() {
				t.Errorf("%s=%q is taken: %+v %s", key, v, got, err)
			}
		}
	}
}
