package probe

import (
	"debug/elf"
	"os"
	"testing"
)

// TestMachines: our few machines are the ones that debug/elf knows by these names.
func TestMachines(t *testing.T) {
	for _, k := range machines {
		if want := elf.Machine(k.m).String(); k.name != want || k.m.String() != want {
			t.Errorf("%s is %s, want %s", k.kernel, k.m, want)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host, known := hostMachine()
	m, ok := elfMachine(exe)
	if known && (!ok || !m.runsOn(host)) {
		t.Errorf("this test is for %s (%v), and runs on %s", m, ok, host)
	}
	for _, tc := range []struct {
		m, host machine
		want    bool
	}{{em386, emX8664, true}, {emX8664, em386, false}, {emARM, emAArch64, true}, {emARM, emX8664, false}} {
		if tc.m.runsOn(tc.host) != tc.want {
			t.Errorf("%s on %s: %v", tc.m, tc.host, !tc.want)
		}
	}
}
