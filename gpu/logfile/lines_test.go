package logfile

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
)

// TestPublicLines: every line that package kmsg knows is found with the prefix it was published with, and no error is
// found in the others.
func TestPublicLines(t *testing.T) {
	n := 0
	for _, file := range [...]string{"lines", "public"} {
		data, err := os.ReadFile("../kmsg/testdata/" + file + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		line := ""
		for text := range strings.Lines(string(data)) {
			text = strings.TrimSuffix(text, "\n")
			want, ok := strings.CutPrefix(text, "  = ")
			if !ok {
				line = text
				continue
			}
			n++
			if want, _, _ = strings.Cut(want, " | "); want != "no XID" {
				want = strings.Join(strings.Fields(want)[:3], " ")
			}
			log, err := Read(strings.NewReader(line + "\n"))
			if err != nil {
				t.Errorf("%s: %v", line, err)
			}
			if got := first(&log); got != want {
				t.Errorf("%s\n is  %s\n not %s", line, got, want)
			}
		}
	}
	if n < 200 {
		t.Errorf("%d lines", n)
	}
}

// first is the first error found, as the files of package kmsg have it.
func first(log *Log) string {
	if len(log.Found) == 0 {
		return "no XID"
	}
	l := log.Found[0].Line
	code, device := "?", l.Device
	if l.Code != kmsg.Absent {
		code = strconv.Itoa(l.Code)
	}
	if device == "" {
		device = "?"
	}
	return string(l.Kind) + " " + code + " " + device
}

// TestNamesAreHinted: no line of a driver is passed over.
func TestNamesAreHinted(t *testing.T) {
	for _, name := range kmsg.Marks {
		if !hinted([]byte("x " + name + " y")) {
			t.Errorf("%s is not looked for", name)
		}
	}
}
