package gpucmd

import (
	"os"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/gpu/logfile"
)

// TestConsequences: class of each report of the driver's lines of all ages, and what it condemns.
func TestConsequences(t *testing.T) {
	data, err := os.ReadFile("../../../../../gpu/kmsg/testdata/meaning.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, b := range strings.Split(string(data), "\n\n") {
		var log, want []string
		for _, line := range strings.Split(b, "\n") {
			if report, ok := strings.CutPrefix(line, "  = "); ok {
				_, consequence, _ := strings.Cut(report, " > ")
				want = append(want, consequence)
			} else if !strings.HasPrefix(line, "#") {
				log = append(log, line)
			}
		}
		read, err := logfile.Read(strings.NewReader(strings.Join(log, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range read.Found {
			f := foundOf(e.Event)
			got = append(got, string(f.Class)+" "+string(f.Condemns))
			if f.Title == "" {
				t.Errorf("%+v has no title", f)
			}
		}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("%s\n  is   %q\n  want %q", strings.Join(log, "\n"), got, want)
		}
		n += len(want)
	}
	if n < 130 {
		t.Errorf("%d reports", n)
	}
}
