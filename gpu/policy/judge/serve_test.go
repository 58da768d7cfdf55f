package judge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
)

func ask(t *testing.T, q policy.Request) policy.Reply {
	t.Helper()
	line, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	return answer(line, "dev")
}

// TestReplies: each request gets what it asks for and no more, or its mistake.
func TestReplies(t *testing.T) {
	file := func(text string) *policy.File { return &policy.File{Path: "f", Text: []byte(text)} }
	const good = "version: 1\nrules:\n- {name: r, condition: gpu.lost, result: UNHEALTHY}\n- {name: all, condition: " +
		"'true', result: DEGRADED}\n"
	const cases = "version: 1\ncases:\n- {name: one, gpus: [{}], gpus_expected: 1, expect: {health: DEGRADED, rule: " +
		"%s}}\n" +
		"- {name: two, gpus: [{signals: {power: {failed: 15}}}], expect: {health: %s}}\n"
	right := file(fmt.Sprintf(cases, "all", "UNHEALTHY"))
	builtin := policy.File{Path: "default"}
	mine := *file(good)
	c, err := policy.LoadCases("c", right.Text)
	if err != nil {
		t.Fatal(err)
	}
	aSample, err := json.Marshal(c.Cases[1].Evidence.Sample)
	if err != nil {
		t.Fatal(err)
	}
	anEvent, err := json.Marshal(c.Cases[1].Evidence.Events[0])
	if err != nil {
		t.Fatal(err)
	}
	eight, late := 8, c.Cases[1].Evidence.Now.Add(76*time.Second)
	for name, tc := range map[string]struct {
		of   policy.Request
		want string // what the reply has; of an error or a mistake its text
	}{
		"another schema": {policy.Request{Schema: 2, Op: policy.OpCheck, Policy: builtin},
			"the request has schema 2, want 1"},
		"no schema":            {policy.Request{Op: policy.OpCheck, Policy: builtin}, "the request has schema 0, want 1"},
		"an unknown operation": {policy.Request{Schema: 1, Op: "juge", Policy: builtin}, `unknown operation "juge"`},
		"check":                {policy.Request{Schema: 1, Op: policy.OpCheck, Policy: mine}, "policy f"},
		"check a built-in one": {policy.Request{Schema: 1, Op: policy.OpCheck, Policy: builtin}, "policy default"},
		"check an unknown one": {policy.Request{Schema: 1, Op: policy.OpCheck, Policy: policy.File{Path: "x"}},
			`there is no built-in policy "x"`},
		"check a wrong one": {policy.Request{Schema: 1, Op: policy.OpCheck, Policy: *file("version: [")},
			"f:1: did not find"},
		"show": {policy.Request{Schema: 1, Op: policy.OpShow, Policy: builtin},
			"text # The policy where none is given."},
		"show cases": {policy.Request{Schema: 1, Op: policy.OpShow, Policy: builtin, Case: "*"},
			"text # What the policy default must make of evidence"},
		"show an unknown one": {policy.Request{Schema: 1, Op: policy.OpShow, Policy: mine},
			`there is no built-in policy "f"`},
		"test": {policy.Request{Schema: 1, Op: policy.OpTest, Policy: mine, Cases: right},
			"policy f, one DEGRADED all true, two UNHEALTHY r true"},
		"test, another rule": {policy.Request{Schema: 1, Op: policy.OpTest, Policy: mine, Cases: file(fmt.Sprintf(cases,
			"r", "UNHEALTHY"))}, "policy f, one DEGRADED all false, two UNHEALTHY r true"},
		"test, another health": {policy.Request{Schema: 1, Op: policy.OpTest, Policy: mine, Cases: file(fmt.Sprintf(cases,
			"all", "UNKNOWN"))}, "policy f, one DEGRADED all true, two UNHEALTHY r false"},
		"test without cases": {policy.Request{Schema: 1, Op: policy.OpTest, Policy: mine},
			"the policy f has no built-in cases"},
		"test with wrong cases": {policy.Request{Schema: 1, Op: policy.OpTest, Policy: mine, Cases: file("version: 2")},
			"f:1: version: want 1, not 2"},
		"a file of a built-in one's name has not its cases": {policy.Request{Schema: 1, Op: policy.OpTest,
			Policy: policy.File{Path: "default", Text: []byte(good)}}, "the policy default has no built-in cases"},
		"judge a case": {policy.Request{Schema: 1, Op: policy.OpJudge, Policy: mine, Cases: right, Case: "two"},
			"policy f, enforce UNHEALTHY r"},
		"judge the first case": {policy.Request{Schema: 1, Op: policy.OpJudge, Policy: mine, Cases: right, Case: "one"},
			"policy f, enforce DEGRADED all"},
		"judge an unknown case": {policy.Request{Schema: 1, Op: policy.OpJudge, Policy: mine, Cases: right,
			Case: "three"}, `f has no case "three"`},
		"judge a case of no file": {policy.Request{Schema: 1, Op: policy.OpJudge, Policy: mine, Case: "two"},
			"the policy f has no built-in cases"},
		"judge, and another": {policy.Request{Schema: 1, Op: policy.OpJudge, Policy: mine, Shadow: &builtin,
			Cases: right, Case: "one"}, "policy f, enforce DEGRADED all, shadow HEALTHY "},
		"judge, and a wrong one": {policy.Request{Schema: 1, Op: policy.OpJudge, Policy: mine, Shadow: file("a: ["),
			Cases: right, Case: "one"}, "f:1: did not find"},
		"judge nothing": {policy.Request{Schema: 1, Op: policy.OpJudge, Policy: mine},
			"policy f, enforce UNKNOWN "},
		"judge a sample": {policy.Request{Schema: 1, Op: policy.OpJudge, Policy: mine, Sample: &policy.File{Path: "s",
			Text: aSample},
			Events: &policy.File{Path: "e", Text: anEvent}}, "policy f, enforce UNHEALTHY r"},
		"judge an old sample": {policy.Request{Schema: 1, Op: policy.OpJudge, Policy: mine, Sample: &policy.File{Path: "s",
			Text: aSample},
			Events: &policy.File{Path: "e", Text: anEvent}, Now: &late}, "policy f, enforce UNKNOWN "},
		"judge a wrong sample": {policy.Request{Schema: 1, Op: policy.OpJudge, Policy: mine, Sample: file("{}")},
			"f:1: check a GPU sample"},
		"judge a wrong event": {policy.Request{Schema: 1, Op: policy.OpJudge, Policy: mine, Events: file("{}")},
			"f:1: check a GPU event"},
	} {
		r := ask(t, tc.of)
		var got []string
		for _, m := range r.Mistakes {
			got = append(got, m.Error())
		}
		if r.Error != "" {
			got = append(got, r.Error)
		}
		if r.Text != nil {
			got = append(got, "text "+string(r.Text[:min(60, len(r.Text))]))
		}
		if r.Policy != nil {
			got = append(got, "policy "+r.Policy.Name)
		}
		for _, c := range r.Tested {
			got = append(got, fmt.Sprint(c.Case, " ", c.Got, " ", c.GotRule, " ", c.OK))
		}
		for _, j := range []*policy.Judgement{r.Judgement, r.Shadow} {
			if j != nil {
				got = append(got, fmt.Sprint(j.Mode, " ", j.Health, " ", deciding(j)))
			}
		}
		if all := strings.Join(got, ", "); !strings.HasPrefix(all, tc.want) || r.Schema != 1 || r.Version != "dev" {
			t.Errorf("%s: %s\nwant %s", name, all, tc.want)
		}
	}
	r := ask(t, policy.Request{Schema: 1, Op: policy.OpJudge, Policy: mine, Sample: &policy.File{Path: "s", Text: aSample},
		Expected: &eight})
	if r.Judgement == nil || !strings.Contains(fmt.Sprint(r.Judgement.Findings), "should have 8 GPUs") {
		t.Errorf("the expected number is not used: %+v", r.Judgement)
	}
	if r := answer([]byte("{"), "dev"); !strings.HasPrefix(r.Error, "decode the request: ") {
		t.Errorf("no JSON: %+v", r)
	}
}

func deciding(j *policy.Judgement) string {
	if j.Decided == nil {
		return ""
	}
	return j.Decided.Rule
}

// TestServe: every line of the stream gets its reply, up to a limit; an error of the streams ends it.
func TestServe(t *testing.T) {
	var out bytes.Buffer
	if err := Serve(strings.NewReader("{}\n\n1\n{}"), &out, "dev"); err != nil || bytes.Count(out.Bytes(),
		[]byte("\n")) != 3 {
		t.Errorf("%v: %s", err, out.String())
	}
	if err := Serve(iotest.ErrReader(io.ErrClosedPipe), io.Discard, "dev"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a stream that cannot be read: %v", err)
	}
	closed, w := io.Pipe()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Serve(strings.NewReader("{}\n"), w, "dev"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a stream that cannot be written: %v", err)
	}
	longest := strings.Repeat(" ", policy.MaxRequest-3) + "{}\n"
	if err := Serve(strings.NewReader(longest), &out, "dev"); err != nil {
		t.Errorf("the longest line: %v", err)
	}
	if err := Serve(strings.NewReader(" "+longest), &out, "dev"); err == nil || !strings.Contains(err.Error(),
		"longer than 16777216 bytes") {
		t.Errorf("a longer line: %v", err)
	}
}

// TestWhichGPU: an event counts for the GPU that shares one of its names, and for no other.
func TestWhichGPU(t *testing.T) {
	zero, one := 0, 1
	for name, tc := range map[string]struct {
		of   policy.Subject // of the finding
		want bool
	}{
		"UUID":          {policy.Subject{About: policy.AboutEvent, UUID: "u"}, true},
		"address":       {policy.Subject{About: policy.AboutEvent, PCI: "p"}, true},
		"index":         {policy.Subject{About: policy.AboutEvent, Index: &zero}, true},
		"itself":        {policy.Subject{About: policy.AboutGPU, UUID: "u", PCI: "p", Index: &zero}, true},
		"another UUID":  {policy.Subject{About: policy.AboutEvent, UUID: "v"}, false},
		"another slot":  {policy.Subject{About: policy.AboutEvent, PCI: "q"}, false},
		"another index": {policy.Subject{About: policy.AboutGPU, Index: &one}, false},
		"none":          {policy.Subject{About: policy.AboutEvent}, false},
		"of the node":   {policy.Subject{About: policy.AboutNode, UUID: "u", PCI: "p", Index: &zero}, false},
	} {
		f := []policy.Finding{{Subject: tc.of, Health: policy.Unhealthy}}
		g := healthOf(policy.Subject{About: policy.AboutGPU, UUID: "u", PCI: "p", Index: &zero}, f)
		if (g.Health == policy.Unhealthy) != tc.want || (g.Health == policy.Healthy) == tc.want {
			t.Errorf("%s: %s", name, g.Health)
		}
		unnamed := healthOf(policy.Subject{About: policy.AboutGPU, Index: &zero}, f)
		if want := tc.want && tc.of.Index != nil; (unnamed.Health == policy.Unhealthy) != want {
			t.Errorf("%s: a GPU without names is %s", name, unnamed.Health)
		}
	}
}
