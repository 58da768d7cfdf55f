package xunit

import (
	"strings"
	"testing"
)

const sound = `<?xml version="1.0"?><testsuites name="x" tests="3" failures="1" errors="0" time="1.250">
<testsuite name="a" tests="3" failures="1" errors="0" skipped="1" time="1,250.5"><properties><property name="k" value=""></property></properties>
<testcase name="1" classname="c" time="0"><failure message="m" type="t">text</failure></testcase>
<testcase name="2"><skipped message="m"></skipped></testcase><testcase name="3"><system-out>o</system-out></testcase></testsuite></testsuites>`

// TestCheck: a valid document passes, and each kind of mistake is found.
func TestCheck(t *testing.T) {
	if err := Check([]byte(sound)); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][3]string{
		{`<testsuites name`, `<testsuites skipped="1" name`, "attribute skipped is not allowed"},
		{`<testsuite name="a"`, `<testsuite`, "attribute name is missing"},
		{`value=""`, ``, "attribute value is missing"},
		{`time="1.250"`, `time="1.25 s"`, `time "1.25 s" is none`},
		{`time="1,250.5"`, `time="1,25.5"`, `time "1,25.5" is none`},
		{`tests="3" failures="1" errors="0" time`, `tests="4" failures="1" errors="0" time`, `tests is "4", and 3 cases are`},
		{`skipped="1"`, `skipped="0"`, `skipped is "0", and 1 cases are`},
		{`failures="1" errors="0" skipped`, `failures="0" errors="0" skipped`, `failures is "0"`},
		{`<system-out>o</system-out>`, `o`, `text "o" is not allowed`},
		{`<system-out>o</system-out>`, `<properties></properties>`, "element properties is not allowed"},
		{`<system-out>o</system-out>`, `<output></output>`, "element output is not allowed"},
		{`</testsuites>`, `</testsuites><x/>`, "follows the document"},
		{`</testsuites>`, ``, "read the document"},
	} {
		if !strings.Contains(sound, c[0]) {
			t.Fatalf("%q is not in the sound document", c[0])
		}
		if err := Check([]byte(strings.Replace(sound, c[0], c[1], 1))); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s -> %s: %v", c[0], c[1], err)
		}
	}
	if err := Check([]byte(`<html></html>`)); err == nil {
		t.Error("a page is a JUnit file")
	}
}
