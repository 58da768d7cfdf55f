package golden

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// helloBefore is the hello of the previous version's agent.
const helloBefore = `{"hello":{"version":"v-before","uid":0,"pid":22333,"agent_pid":0,` +
	`"boot_id":"d420623a-bed4-4a46-94b7-0c00e299279e","now":"2026-11-22T19:42:25.520Z"}}`

// TestAgentOfVersionBefore: this version's client reads the answers of the previous version's agent, and its judges
// reach the same verdict. before/ has two walks of the previous version's tool and agent.
func TestAgentOfVersionBefore(t *testing.T) {
	for _, name := range []string{"healthy", "agent-stopped"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("before", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var walk diag.Report
			var raw struct {
				Facts []map[string]any `json:"facts"`
			}
			if err := json.Unmarshal(text, &walk); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &raw); err != nil {
				t.Fatal(err)
			}
			asked := askBefore(t, &walk, raw.Facts)
			if asked == 0 {
				t.Fatal("nothing was asked of the node")
			}
			again, err := verdict.Replay(hops.BuiltIn(), &walk)
			if err != nil {
				t.Fatal(err)
			}
			if was, is := stated(&walk, walk.Hops), stated(again, walk.Hops); was != is {
				t.Errorf("of %d answers this version says\n%s\nand the one before said\n%s", asked, is, was)
			}
		})
	}
}

// stated returns all decisions of the verdict about the hops that were known then, without texts and without its
// support, for which later rules may know more.
func stated(r *diag.Report, known []diag.HopResult) string {
	v := verdict.Stated(r)
	v.RulesVersion, v.Confidence = "", ""
	text := fmt.Sprintf("%+v %s", v, r.Verdict.Symptoms)
	for _, h := range r.Hops {
		if slices.ContainsFunc(known, func(k diag.HopResult) bool { return k.ID == h.ID }) {
			text += fmt.Sprintf("\n%s %s", h.ID, h.Status)
		}
	}
	return text
}

// askBefore repeats all requests for the walk's facts on the node to a peer that answers like the previous version's
// agent, and replaces the facts by the answers. It returns their number.
func askBefore(t *testing.T, walk *diag.Report, recorded []map[string]any) int {
	t.Helper()
	toAgent, requests := io.Pipe()
	answers, fromAgent := io.Pipe()
	go func() {
		defer fromAgent.Close()
		answerBefore(toAgent, fromAgent, recorded)
	}()
	c := probe.NewClient(answers, requests)
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	hello, err := c.Hello(context.Background())
	if err != nil || hello.Version != "v-before" || hello.Now.IsZero() {
		t.Fatalf("it greets with %+v: %v", hello, err)
	}
	asked := 0
	for i := range walk.Facts {
		f := &walk.Facts[i]
		if f.Vantage != probe.VantageNode || f.Request.Op == diag.OpSSH {
			continue
		}
		asked++
		got := c.Probe(context.Background(), []diag.Request{f.Request})[0]
		got.OffsetMS = f.OffsetMS
		var is map[string]any
		if text, err := json.Marshal(got); err != nil || json.Unmarshal(text, &is) != nil ||
			!reflect.DeepEqual(is, recorded[i]) {
			t.Errorf("%s is read as\n%v, and was\n%v", f.ID, is, recorded[i])
		}
		*f = got
	}
	return asked
}

// answerBefore answers each request with the recorded fact for it, and a request that the previous version did not make
// as that agent would have.
func answerBefore(in io.Reader, out io.Writer, recorded []map[string]any) {
	fmt.Fprintln(out, helloBefore)
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var request map[string]any
		_ = json.Unmarshal(line, &request) // a line that is not a request finds no answer
		id := request["id"]
		delete(request, "id")
		answer := map[string]any{"id": id, "error": "reading a request: no such one was made"}
		for _, fact := range recorded {
			was := maps.Clone(fact["request"].(map[string]any))
			delete(was, "id")
			if reflect.DeepEqual(was, request) {
				answer = maps.Clone(fact)
				answer["id"] = id
			}
		}
		text, _ := json.Marshal(answer) // it was read from JSON
		fmt.Fprintf(out, "%s\n", bytes.TrimSpace(text))
	}
}
