package cmdutil

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestANewerReportIsRead: fields that a later version added are ignored and named, with the version that wrote them;
// the verdict equals that of the report without them. --quiet omits the note.
func TestANewerReportIsRead(t *testing.T) {
	text, err := os.ReadFile("../../../../golden/reports/stale-ca-bundle.json")
	if err != nil {
		t.Fatal(err)
	}
	newer := bytes.Replace(text, []byte(`"verdict": {`), []byte(`"verdict": {"risk": 1,`), 1)
	newer = bytes.Replace(newer, []byte(`"run": {`), []byte(`"weather": {"rain": []}, "run": {`), 1)
	for _, quiet := range []bool{false, true} {
		var said bytes.Buffer
		a := &App{Stderr: &said, Quiet: quiet, Built: "v0"}
		was, err := a.JudgeAgain(text)
		if err != nil || said.Len() != 0 {
			t.Fatalf("%v %s", err, &said)
		}
		is, err := a.JudgeAgain(newer)
		if err != nil {
			t.Fatal(err)
		}
		if was.Verdict.Outcome != diag.OutcomeFail || !reflect.DeepEqual(is.Verdict, was.Verdict) {
			t.Errorf("another verdict: %+v", is.Verdict)
		}
		note := "gpuaasctl: PreflightReport of gpuaasctl " + is.Run.ToolVersion +
			": ignored fields that gpuaasctl v0 does not know: verdict.risk, weather\n"
		if quiet {
			note = ""
		}
		if said.String() != note {
			t.Errorf("quiet %t: %q, want %q", quiet, &said, note)
		}
	}
	var said bytes.Buffer
	(&App{Stderr: &said, Built: "v0"}).NoteUnknown("K", "", strings.Split("a b c d e f g", " "))
	want := "gpuaasctl: K: ignored fields that gpuaasctl v0 does not know: a, b, c, d, e and 2 more\n"
	if said.String() != want {
		t.Errorf("%q, want %q", &said, want)
	}
}
