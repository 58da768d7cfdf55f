package render

import (
	"bytes"
	"encoding/xml"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/internal/clean"
)

// TestJUnitCommandsNoCISystem: the file may be in a log; every text and attribute keeps its value.
func TestJUnitCommandsNoCISystem(t *testing.T) {
	commands := regexp.MustCompile(`(?m)^\s*::[^\s\d]|##[\w.-]*\[`)
	for _, s := range []string{"##vso[x]", "###[x]", "####teamcity[x]", "a\n::error::x\n  ::y::z", "::1",
		"]]>##[x", "#", "a ## b"} {
		want := JUnitSuites{XMLName: xml.Name{Local: "testsuites"}, Name: s, Suites: []JUnitSuite{{Name: s, Out: s,
			Cases: []JUnitCase{{Name: s, Out: s, Failure: &JUnitProblem{Message: s, Type: s, Text: "\n" + s + "\n"}}}}}}
		var b bytes.Buffer
		if err := want.Encode(&b); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if muted := string(clean.Inert(b.Bytes())); muted != text || commands.MatchString(text) {
			t.Errorf("%q is a command to a CI system in\n%s", s, text)
		}
		var got JUnitSuites
		if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
			t.Fatalf("%q: %v\n%s", s, err, text)
		}
		c := got.Suites[0].Cases[0]
		if got.Name != s || got.Suites[0].Out != s || c.Out != s || c.Failure.Message != s ||
			strings.Trim(c.Failure.Text, "\n") != s {
			t.Errorf("%q became %+v, %+v", s, got, c.Failure)
		}
	}
}
