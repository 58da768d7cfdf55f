//go:build linux

package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestSummary: a test that is skipped for lack of a program fails the bare run, a test that is skipped by design does
// not, and a run without tests does.
func TestSummary(t *testing.T) {
	passed := strings.Repeat(`{"Action":"pass","Package":"p","Test":"TestGood"}`+"\n", leastPassed)
	skip := func(reason string) string {
		return `{"Action":"output","Package":"p","Test":"TestX","Output":"    x_test.go:20: ` + reason + `\n"}` + "\n" +
			`{"Action":"output","Package":"p","Test":"TestX","Output":"--- SKIP: TestX (0.00s)\n"}` + "\n" +
			`{"Action":"skip","Package":"p","Test":"TestX"}` + "\n"
	}
	for name, tc := range map[string]struct {
		stream string
		want   []string
	}{
		"all pass":        {passed, nil},
		"by design":       {passed + skip("skipped: needs GPUAASCTL_LAB_TESTS=1 (make test-lab sets it)"), nil},
		"no test files":   {passed + `{"Action":"skip","Package":"p"}` + "\n", nil},
		"lacks a program": {passed + skip("skipped: needs nft"), []string{`skipped: p TestX: "needs nft"`}},
		"no reason": {passed + `{"Action":"skip","Package":"p","Test":"TestX"}` + "\n",
			[]string{`skipped: p TestX: ""`}},
		"part of a reason": {passed + skip("skipped: root may not"), []string{`skipped: p TestX: "root may not"`}},
		"fails":            {passed + `{"Action":"fail","Package":"p","Test":"TestX"}` + "\n", []string{"failed: p TestX"}},
		"nothing was run": {"make: nothing to do\n",
			[]string{fmt.Sprintf("0 tests passed, want at least %d", leastPassed)}},
		"a line in 2 parts": {passed + `{"Action":"fail","Package":"p",` + "\x00" + `"Test":"TestX"}` + "\n",
			[]string{"failed: p TestX"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			s := newSummary(&out)
			for part := range strings.SplitSeq(tc.stream, "\x00") {
				if _, err := s.Write([]byte(part)); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.wrong(leastPassed); !slices.Equal(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
