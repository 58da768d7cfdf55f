package explain_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/schema"
	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/xid"
	"github.com/gpuaas/gpuaasctl/ops/explain"
)

// checkMeaning fails if a word has no meaning of the kind, or an empty one.
func checkMeaning(t *testing.T, found []explain.Entry, kind, word string) {
	t.Helper()
	if len(found) != 1 {
		t.Errorf("%s %q has %d meanings", kind, word, len(found))
		return
	}
	e := found[0]
	if e.Title == "" || (len(e.Means)+len(e.Causes)+len(e.Do) == 0 && kind != "exit code" && e.Title == word) {
		t.Errorf("%s %q says nothing: %+v", kind, word, e)
	}
}

// meanings returns all entries, by kind and word.
func meanings() map[[2]string][]explain.Entry {
	all := map[[2]string][]explain.Entry{}
	for _, e := range explain.All() {
		all[[2]string{e.Kind, e.Word}] = append(all[[2]string{e.Kind, e.Word}], e)
		all[[2]string{"", e.Word}] = append(all[[2]string{"", e.Word}], e)
	}
	return all
}

// TestEveryWordIsExplained: each id of the catalogue, each word of the published schema and each of its field names has
// a meaning.
func TestEveryWordIsExplained(t *testing.T) {
	all := meanings()
	has := func(t *testing.T, kind, word string) {
		t.Helper()
		checkMeaning(t, all[[2]string{kind, word}], kind, word)
	}
	for _, h := range diag.Hops() {
		has(t, "hop", string(h.ID))
	}
	for _, s := range diag.Signals() {
		has(t, "signal", string(s.Signal))
	}
	for _, f := range diag.Failures {
		has(t, "failure", string(f))
	}
	for _, r := range diag.Reasons() {
		has(t, "reason", string(r.Code))
	}
	for _, s := range diag.Scenarios() {
		has(t, "scenario", s.ID)
	}
	for _, c := range drill.ClaimRows() {
		has(t, "claim", c.ID)
	}
	for _, w := range drill.Words() {
		has(t, "verdict", string(w))
	}
	for _, x := range diag.Exits() {
		has(t, "exit code", strconv.Itoa(x.Code))
	}
	for _, r := range xid.Rows() {
		has(t, "xid", "xid_"+strconv.Itoa(r.Code))
		for _, v := range r.Views {
			has(t, "xid source", string(v.Source))
		}
	}
	for _, r := range xid.SwitchRows() {
		has(t, "sxid", "sxid_"+strconv.Itoa(r.Code))
	}
	for _, c := range xid.Classes() {
		has(t, "xid class", string(c.Class))
	}
	for _, s := range []xid.Scope{xid.None, xid.GPU, xid.Node, xid.Undecided} {
		has(t, "xid scope", string(s))
	}
	for _, c := range []kmsg.Cause{kmsg.Overrun, kmsg.Missing, kmsg.Began, kmsg.Rebooted, kmsg.NotYet, kmsg.Unreadable} {
		has(t, "log gap", string(c))
	}
	for _, k := range []kmsg.Kind{kmsg.XID, kmsg.SXID, kmsg.Lost} {
		has(t, "driver report", string(k))
	}
	var s struct {
		Defs map[string]struct {
			Properties map[string]json.RawMessage `json:"properties"`
			Enum       []string                   `json:"enum"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(schema.PreflightReport()), &s); err != nil || len(s.Defs) < 50 {
		t.Fatalf("%d definitions, %v", len(s.Defs), err)
	}
	for _, d := range s.Defs {
		for name := range d.Properties {
			has(t, "field", name)
		}
		for _, word := range d.Enum {
			if word != "" && len(all[[2]string{"", word}]) == 0 {
				t.Errorf("%q is a word of the schema, and is not explained", word)
			}
		}
	}
}

// TestRunbooksOfRecordingsResolve: the command that a report gives finds one meaning with steps.
func TestRunbooksOfRecordingsResolve(t *testing.T) {
	files, err := filepath.Glob("../../golden/*/*.json")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r diag.Report
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
		if r.Verdict.Blame == nil {
			continue
		}
		row, _ := diag.LookupSignal(r.Verdict.Blame.Signal)
		word, ok := strings.CutPrefix(row.Runbook(""), "gpuaasctl explain ")
		if found := explain.Lookup("signal", word); !ok || len(found) != 1 || len(found[0].Do) == 0 || found[0].Verify == "" {
			t.Errorf("%s: %s: %+v", file, row.Runbook(""), found)
		}
	}
}

// TestWordsOfRecordingsAreExplained: each step, and each code in an answer of a platform or an agent, of every
// recording has a meaning.
func TestWordsOfRecordingsAreExplained(t *testing.T) {
	files, err := filepath.Glob("../../golden/*/*.json")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	all := meanings()
	missing := map[[2]string]string{}
	want := func(kind, word, file string) {
		if word != "" && len(all[[2]string{kind, word}]) == 0 {
			missing[[2]string{kind, word}] = filepath.Base(file)
		}
	}
	codes := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r diag.Report
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
		for i := range r.Hops {
			for _, s := range r.Hops[i].Steps {
				want("step", s.Name, file)
			}
		}
		for i := range r.Facts {
			f := &r.Facts[i]
			if f.WS != nil {
				want("error code", f.WS.FrameCode, file)
			}
			if f.HTTP == nil {
				continue
			}
			for name, word := range f.HTTP.Fields {
				if strings.HasSuffix(name, "error.code") || strings.HasSuffix(name, "error_code") ||
					name == "session.close_reason" {
					codes++
					want("error code", word, file)
				}
			}
		}
	}
	for word, file := range missing {
		t.Errorf("%s %q of %s is not explained", word[0], word[1], file)
	}
	if codes < 20 {
		t.Errorf("only %d codes", codes)
	}
}

// TestLookup: numbers, paths of fields and anchors of the runbook page lead to their words.
func TestLookup(t *testing.T) {
	for given, want := range map[string]string{
		"4": "hop node_ops_access", "7": "exit code 7", "verdict.blame.hop": "field hop",
		"reason-disk_full": "reason disk_full", "TCP_timeout": "failure tcp_timeout",
		"node-ops-access": "hop node_ops_access", "xid_79": "xid xid_79", "XID-79": "xid xid_79",
		"sxid-20034": "sxid sxid_20034",
	} {
		found := explain.Lookup("", given)
		if !slices.ContainsFunc(found, func(e explain.Entry) bool { return e.Kind+" "+e.Word == want }) {
			t.Errorf("%s: %+v, want %s", given, found, want)
		}
	}
	for kind, want := range map[string]string{"xid": "xid_13", "sxid": ""} {
		found := explain.Lookup(kind, "13")
		if (len(found) == 1) != (want != "") || (want != "" && found[0].Word != want) {
			t.Errorf("--kind %s 13: %+v", kind, found)
		}
	}
	if found := explain.Lookup("", "nothing_of_this_name"); len(found) > 0 {
		t.Errorf("%+v", found)
	}
	if got := explain.Lookup("failure", "tcp_timeout")[0].Example; got == nil || got.From == "" {
		t.Errorf("no example: %+v", got)
	}
}

// TestSeeLeadsSomewhere: each word that an entry refers to has a meaning.
func TestSeeLeadsSomewhere(t *testing.T) {
	all := meanings()
	for _, e := range explain.All() {
		for _, word := range e.See {
			if len(all[[2]string{"", word}]) == 0 {
				t.Errorf("%s %s: %q is not explained", e.Kind, e.Word, word)
			}
		}
	}
}

// TestWordsOfABlameAreExplained: the owners of every row, and each errno and HTTP status of a recorded blame, have a
// meaning, as a report spells them.
func TestWordsOfABlameAreExplained(t *testing.T) {
	for _, r := range diag.Signals() {
		for _, owners := range append(sideOwners(r.BySide), r.Owners) {
			for _, o := range owners {
				if len(explain.Lookup("owner", o)) != 1 {
					t.Errorf("the owner %q of %s is not explained", o, r.Signal)
				}
			}
		}
	}
	verdicts, err := os.ReadFile("../../golden/verdicts.txt")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`\((E[A-Z]{3,}|HTTP [0-9]{3})\b`).FindAllStringSubmatch(string(verdicts), -1)
	for _, c := range codes {
		if len(explain.Lookup("", c[1])) == 0 {
			t.Errorf("%s is in a blame, and is not explained", c[1])
		}
	}
	if len(codes) < 50 {
		t.Errorf("only %d codes", len(codes))
	}
}

func sideOwners(all []diag.SideOwners) (owners []diag.Owners) {
	for _, o := range all {
		owners = append(owners, o.Owners)
	}
	return owners
}
