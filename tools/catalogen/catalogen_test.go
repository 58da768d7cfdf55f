package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
)

const root = "../.."

// TestTablesAreCurrent: the tables equal those generated from the catalogue.
func TestTablesAreCurrent(t *testing.T) {
	made, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range made {
		goldentest.Check(t, filepath.Join(root, path), string(want))
	}
	old, err := filepath.Glob(filepath.Join(root, "*", "*"+suffix))
	below, _ := filepath.Glob(filepath.Join(root, "*", "*", "*"+suffix))
	if err != nil || len(old) == 0 || len(below) == 0 {
		t.Fatalf("no generated table: %v", err)
	}
	old = append(old, below...)
	for _, path := range old {
		if rel, _ := filepath.Rel(root, path); made[rel] == nil {
			t.Errorf("%s is made by no template", rel)
		}
	}
}

// TestReaderIsStrict: a mistake in a file is reported with the file, the line and the problem; nothing is guessed.
func TestReaderIsStrict(t *testing.T) {
	for name, tc := range map[string]struct{ file, old, new, want string }{
		"unknown key": {"signals.yaml", "  title: The allocation is not active\n", "  title: x\n  tittle: y\n",
			`unknown key "tittle"`},
		"key twice": {"signals.yaml", "  title: The allocation is not active\n", "  title: x\n  title: y\n",
			`"title" is here twice`},
		"missing field": {"signals.yaml", "  title: The allocation is not active\n", "", `lacks "title"`},
		"empty":         {"signals.yaml", "  title: The allocation is not active\n", "  title: ''\n", "is empty"},
		"null":          {"signals.yaml", "  title: The allocation is not active\n", "  title:\n", "want a text"},
		"duplicate id": {"signals.yaml", "- id: allocation_not_active\n", "- id: operator_auth_failed\n",
			`id "operator_auth_failed" is that of line`},
		"duplicate name": {"signals.yaml", "  go: SigAllocationNotActive\n", "  go: SigOperatorAuthFailed\n",
			`go "SigOperatorAuthFailed" is that of line`},
		"unknown owner": {"signals.yaml", "  owners: [allocation lifecycle]\n", "  owners: [allocation lifecycl]\n",
			`unknown owner "allocation lifecycl"`},
		"unknown hop": {"signals.yaml", "  proof: [allocation_binding]\n", "  proof: [allocation_bindin]\n",
			`unknown hop "allocation_bindin"`},
		"unknown reason": {"signals.yaml", "  reason: none\n", "  reason: nothing\n", `unknown reason "nothing"`},
		"empty list": {"signals.yaml", "  owners: [allocation lifecycle]\n", "  owners: []\n",
			"want a list with something in it"},
		"backticks": {"signals.yaml", "    - text: fix the look-up", "    - text: run `x`, fix the look-up",
			"a command in backticks"},
		"place": {"signals.yaml", "agent runs[: {1}]; builds", "agent runs[: {3}]; builds", "places for other commands"},
		"two forms": {"signals.yaml", "      commands:\n", "      command: x\n      commands:\n",
			"command and commands are both given"},
		"false": {"signals.yaml", "guess: true", "guess: false", "want true, or nothing at all"},
		"unknown fact": {"reasons.yaml", "{task_completes: fail}", "{task_complete: fail}",
			`unknown fact "task_complete"`},
		"unknown mark": {"reasons.yaml", "{task_completes: fail}", "{task_completes: bad}", "want pass or fail"},
		"said before": {"reasons.yaml",
			"        - says: Operation history is stale\n          measured: {last_contact: fail}\n",
			"        - Operation history is stale\n", "nothing after it is ever said"},
		"no time":   {"reasons.yaml", "  detect: 30s\n", "  detect: 30\n", "want a time of whole seconds"},
		"no budget": {"reasons.yaml", "  detect: 30s\n", "", "a severity and a time to detect go together"},
		"never recovers": {"reasons.yaml", "  user_text_unrecovered: Platform maintenance in progress\n", "",
			`lacks "user_text_unrecovered"`},
		"unknown decider": {"scenarios.yaml", "  severity: P1\n", "  severity: P4\n", `unknown severity "P4"`},
		"a code twice":    {"exits.yaml", "- code: 4\n", "- code: 3\n", `code "3" is that of line`},
		"no number":       {"exits.yaml", "- code: 4\n", "- code: four\n", `want a number, not "four"`},
		"unknown verdict": {"claims.yaml", "  else: [late]\n", "  else: [tardy]\n", `unknown verdict "tardy"`},
		"no such place":   {"causes.yaml", "where: profile", "where: elsewhere", `unknown place of a repair "elsewhere"`},
		"no YAML":         {"signals.yaml", "- id: allocation_not_active\n", "- id: [\n", "signals.yaml: yaml: line"},
		"text for mapping": {"signals.yaml", "    - text: fix the look-up", "    - fix it\n    - text: fix the look-up",
			"want a mapping"},
	} {
		t.Run(name, func(t *testing.T) {
			broken := spoiled(t, tc.file, tc.old, tc.new)
			_, err := generate(broken)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), folder+"/"+tc.file+":") {
				t.Fatalf("%v\nwant %s:LINE: %s", err, tc.file, tc.want)
			}
		})
	}
}

// TestXidReaderIsStrict: the same for the tables of error codes.
func TestXidReaderIsStrict(t *testing.T) {
	for name, tc := range map[string]struct{ file, old, new, want string }{
		"unknown class":   {"xids.yaml", "  class: reboot\n", "  class: reboots\n", `unknown class "reboots"`},
		"class of a SXID": {"xids.yaml", "  class: reboot\n", "  class: always_fatal\n", "always_fatal is no class of XIDs"},
		"class of a XID":  {"sxids.yaml", "class: always_fatal", "class: reboot", "reboot is no class of SXIDs"},
		"unknown source":  {"xids.yaml", "{source: dcgm,", "{source: dcgmx,", `unknown sourceid "dcgmx"`},
		"unknown scope":   {"classes.yaml", "  condemns: node\n", "  condemns: nodes\n", `unknown scope "nodes"`},
		"no provenance": {"xids.yaml", "  views:\n    - {source: driver, says: \"PCIE_CORRECTABLE_ERROR_FAULT\"}\n", "",
			`lacks "views"`},
		"a code twice":  {"xids.yaml", "- code: 79\n", "- code: 78\n", `code "78" is that of line`},
		"not in order":  {"xids.yaml", "- code: 79\n", "- code: 790\n", "code 80 is behind 790"},
		"a class away":  {"classes.yaml", "- id: carrier\n", "- id: link\n", `lacks "carrier"`},
		"a source away": {"sources.yaml", "- id: aws\n", "- id: gke\n", `lacks "aws"`},
	} {
		t.Run(name, func(t *testing.T) {
			broken := spoiled(t, tc.file, tc.old, tc.new)
			_, err := readXids(broken)
			at := xidFolder + "/" + tc.file + ":"
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), at) {
				t.Fatalf("%v\nwant %s:LINE: %s", err, tc.file, tc.want)
			}
		})
	}
}

// spoiled copies the input, with one text of one file replaced.
func spoiled(t *testing.T, file, old, with string) string {
	t.Helper()
	at := t.TempDir()
	for _, pattern := range []string{folder + "/*.yaml", xidFolder + "/*.yaml", "diag/*.go", "diag/trust/*.go",
		"chaos/drill/*.go", "gpu/xid/*.go"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Base(path) == file {
				if !strings.Contains(string(text), old) {
					t.Fatalf("%s has no %q", file, old)
				}
				text = []byte(strings.Replace(string(text), old, with, 1))
			}
			rel, _ := filepath.Rel(root, path)
			if err := os.MkdirAll(filepath.Join(at, filepath.Dir(rel)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(at, rel), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return at
}
