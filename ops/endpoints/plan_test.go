package endpoints

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/profile"
)

var lab = []Entry{{"node-api.gpuaas.test", "10.231.77.11"}, {"term.gpuaas.test", "10.231.77.10"}}

// block is the block that a plan for lab writes.
const block = "# BEGIN gpuaasctl endpoints: managed, edits are lost (gpuaasctl node endpoints)\n" +
	"10.231.77.11 node-api.gpuaas.test\n10.231.77.10 term.gpuaas.test\n# END gpuaasctl endpoints\n"

const local = "127.0.0.1 localhost\n"

// TestMake: the complete result for every kind of file seen so far.
func TestMake(t *testing.T) {
	v6 := []Entry{{"node-api.gpuaas.test", "fd00:77::11"}}
	for _, tc := range []struct {
		name, before, after string
		entries             []Entry
		manual              []Manual
		damaged             bool
	}{
		{name: "empty", before: "", after: block, entries: lab},
		{name: "appended", before: local, after: local + block, entries: lab},
		{name: "no final newline", before: "127.0.0.1 localhost", after: local + block, entries: lab},
		{name: "other lines keep their line ends", before: "127.0.0.1 localhost\r\n# note\r\n",
			after: "127.0.0.1 localhost\r\n# note\r\n" + block, entries: lab},
		{name: "same again", before: local + block + "# after\n", after: local + block + "# after\n", entries: lab},
		{name: "our block with other line ends", before: local + strings.ReplaceAll(block, "\n", "\r\n"),
			after: local + block, entries: lab},
		{name: "in place of an older one",
			before: local + "# BEGIN gpuaasctl\n10.0.0.1 old.test\n# END gpuaasctl\n::1 localhost\n",
			after:  local + block + "::1 localhost\n", entries: lab},
		{name: "indented markers", before: "  # BEGIN gpuaasctl endpoints\n1.1.1.1 x\n\t# END gpuaasctl endpoints\n",
			after: block, entries: lab},
		{name: "two blocks become one", before: block + local + block, after: block + local, entries: lab},
		{name: "a block for another purpose stays",
			before: "# BEGIN gpuaasctl drill\n10.0.0.9 x.test\n# END gpuaasctl drill\n",
			after:  "# BEGIN gpuaasctl drill\n10.0.0.9 x.test\n# END gpuaasctl drill\n" + block, entries: lab},
		{name: "no entries take it out", before: local + block + "# after\n", after: local + "# after\n"},
		{name: "nothing to take out", before: local, after: local},
		{name: "IPv6", before: local, entries: v6,
			after: local +
				"# BEGIN gpuaasctl endpoints: managed, edits are lost (gpuaasctl node endpoints)\nfd00:77::11 " +
				"node-api.gpuaas.test\n# END gpuaasctl endpoints\n"},
		{name: "IPv6 by hand, spelled otherwise", before: "FD00:77:0::11\tNODE-API.gpuaas.test.\n", entries: v6,
			after: "FD00:77:0::11\tNODE-API.gpuaas.test.\n# BEGIN gpuaasctl endpoints: managed, edits are lost (gpuaasctl " +
				"node endpoints)\nfd00:77::11 node-api.gpuaas.test\n# END gpuaasctl endpoints\n",
			manual: []Manual{{1, "node-api.gpuaas.test", "fd00:77::11", "fd00:77::11", true}}},
		{name: "by hand, behind another name", before: local + "10.9.9.9 alias node-api.gpuaas.test # mine\n", entries: lab,
			after:  local + "10.9.9.9 alias node-api.gpuaas.test # mine\n" + block,
			manual: []Manual{{2, "node-api.gpuaas.test", "10.9.9.9", "10.231.77.11", false}}},
		{name: "a comment is no line by hand", before: "# 10.9.9.9 node-api.gpuaas.test\n",
			after: "# 10.9.9.9 node-api.gpuaas.test\n" + block, entries: lab},
		{name: "begin without end", before: local + "# BEGIN gpuaasctl endpoints\n10.0.0.1 x\n", entries: lab, damaged: true},
		{name: "end without begin", before: local + "# END gpuaasctl endpoints\n", entries: lab, damaged: true},
		{name: "begin twice", before: "# BEGIN gpuaasctl endpoints\n" + block, entries: lab, damaged: true},
		{name: "another block begins inside ours",
			before:  "# BEGIN gpuaasctl endpoints\n# BEGIN gpuaasctl drill\n# END gpuaasctl drill\n# END gpuaasctl endpoints\n",
			entries: lab, damaged: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := Make(tc.before, tc.entries)
			if tc.damaged {
				if !errors.Is(err, ErrDamaged) || p.After != "" {
					t.Errorf("error %v, after %q", err, p.After)
				}
				return
			}
			if err != nil || p.After != tc.after || p.Changed != (tc.before != tc.after) {
				t.Fatalf("%v, changed %t\n got %q\nwant %q", err, p.Changed, p.After, tc.after)
			}
			if len(p.Manual) != len(tc.manual) || (len(tc.manual) > 0 && p.Manual[0] != tc.manual[0]) {
				t.Errorf("manual lines %+v, want %+v", p.Manual, tc.manual)
			}
			if again, err := Make(p.After, tc.entries); err != nil || again.Changed {
				t.Errorf("a second time it changes: %v\n%s", err, again.Diff())
			}
		})
	}
}

// TestUndo: what a plan replaced can be restored, and removed again, exactly.
func TestUndo(t *testing.T) {
	for _, before := range []string{"", local, local + block + "# after\n",
		local + "# BEGIN gpuaasctl endpoints: managed, edits are lost (gpuaasctl node endpoints)\n10.0.0.1 old.test\n# END " +
			"gpuaasctl endpoints\n"} {
		p, err := Make(before, lab)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Restore(p.After, p.Old)
		if err != nil || back.After != before {
			t.Errorf("%v\n got %q\nwant %q", err, back.After, before)
		}
	}
	if _, err := Restore(local, []string{"# END gpuaasctl endpoints"}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a marker inside the block: %v", err)
	}
}

// FuzzMake: whatever the file contains, other lines stay, and a second plan changes nothing.
func FuzzMake(f *testing.F) {
	for _, text := range []string{"", local, block, "# BEGIN gpuaasctl\r\nx\r\n# END gpuaasctl",
		"a\x00b\n\xff# END gpuaasctl\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Make(text, lab)
		if err != nil {
			return
		}
		if strings.Count("\n"+p.After, "\n"+block) != 1 {
			t.Fatalf("not one block in %q", p.After)
		}
		again, err := Make(p.After, lab)
		if err != nil || again.Changed {
			t.Fatalf("a second plan changes %q: %v", p.After, err)
		}
		out, err := Restore(p.After, nil)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.After) {
			if !strings.Contains(text, strings.TrimRight(line, "\n")) {
				t.Fatalf("%q was never there", line)
			}
		}
	})
}

func TestWanted(t *testing.T) {
	for _, tc := range []struct {
		name    string
		p       profile.Profile
		entries []Entry
		left    []string
		fails   bool
	}{
		{"both", profile.Profile{NodeRuntimeAPIURL: "https://Node-API.test", NodeRuntimeResolveAddress: "10.0.0.11",
			NodeTerminalURL: "https://a.test:18443", NodeTerminalResolveAddress: "10.0.0.10"},
			[]Entry{{"a.test", "10.0.0.10"}, {"node-api.test", "10.0.0.11"}}, nil, false},
		{"one name for both", profile.Profile{NodeRuntimeAPIURL: "https://n.test", NodeRuntimeResolveAddress: "10.0.0.11",
			NodeTerminalURL: "https://n.test:18443", NodeTerminalResolveAddress: "10.0.0.11"},
			[]Entry{{"n.test", "10.0.0.11"}}, nil, false},
		{"one name, two addresses",
			profile.Profile{NodeRuntimeAPIURL: "https://n.test", NodeRuntimeResolveAddress: "10.0.0.11",
				NodeTerminalURL: "https://n.test:18443", NodeTerminalResolveAddress: "10.0.0.10"}, nil, nil, true},
		{"no address", profile.Profile{NodeRuntimeAPIURL: "https://n.test"}, nil, []string{"n.test"}, false},
		{"an address needs no name",
			profile.Profile{NodeRuntimeAPIURL: "https://10.0.0.11", NodeRuntimeResolveAddress: "10.0.0.11",
				NodeTerminalURL: "https://t.test", NodeTerminalResolveAddress: "fd00::1"}, []Entry{{"t.test", "fd00::1"}}, nil,
			false},
		{"nothing", profile.Profile{}, nil, nil, true},
	} {
		entries, left, err := Wanted(tc.p)
		if (err != nil) != tc.fails || len(entries) != len(tc.entries) || len(left) != len(tc.left) {
			t.Errorf("%s: %v, left %v, %v", tc.name, entries, left, err)
			continue
		}
		for i := range entries {
			if entries[i] != tc.entries[i] {
				t.Errorf("%s: %v, want %v", tc.name, entries, tc.entries)
			}
		}
	}
}

// files returns the paths of a hosts file and a log in a new folder.
func files(t *testing.T, text string) (hosts, log string) {
	t.Helper()
	dir := t.TempDir()
	hosts = filepath.Join(dir, "hosts")
	if err := os.WriteFile(hosts, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return hosts, filepath.Join(dir, "state", "endpoints.log")
}
