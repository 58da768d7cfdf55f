package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// documentsOf has arguments with which each command that writes JSON does so in this test, for each of its forms. DIR
// is a folder with p.yaml, a profile whose platform answers.
func documentsOf() map[string][]string {
	const reports, run = "../../golden/reports/", " --deadline 5s --profile DIR/p.yaml"
	return map[string][]string{
		"version":             {""},
		"preflight":           {"--node-id n1 --only control_plane_access" + run, "--node-id n1 --dry-run" + run},
		"preflight hops":      {""},
		"check":               {"127.0.0.1 --no-save --deadline 5s", "127.0.0.1 localhost --no-save --deadline 5s"},
		"explain":             {"", "disk_full"},
		"gpu check":           {"--here --libexec HELPERS"},
		"gpu status":          {"n1" + run},
		"gpu xid explain":     {"79", "20034"},
		"gpu xid list":        {"", "--sxid"},
		"gpu xid scan":        {"DIR/p.yaml"},
		"gpu policy validate": {"default --libexec HELPERS"},
		"gpu policy test":     {"strict --libexec HELPERS"},
		"gpu policy explain": {"default --case no-driver --libexec HELPERS",
			"strict --shadow default --case no-driver --libexec HELPERS"},
		"preflight replay":    {reports + "healthy.json"},
		"history list":        {""},
		"history show":        {"run-"},
		"history diff":        {reports + "healthy.json " + reports + "api-egress-blocked.json"},
		"profile show":        {"DIR/p.yaml"},
		"profile list":        {""},
		"diag bundle":         {"n1 -O DIR/FORMAT.tar.gz" + run},
		"diag bundle verify":  {"DIR/json.tar.gz"},
		"diag timeline":       {"DIR/json.tar.gz", "n1" + run},
		"diag export":         {"n1" + run},
		"diag classify":       {reports + "healthy.json"},
		"diag trust":          {"--replay " + reports + "healthy.json"},
		"diag decode":         {"DIR/damaged"},
		"node status":         {"n1" + run},
		"node endpoints plan": {"n1" + run}, "node endpoints apply": {"n1" + run}, "node endpoints remove": {"n1" + run},
		"node reenroll": {"n1 --reason x --out DIR/recovery.json" + run},
		"chaos list":    {"", "--kinds", "--books"},
		"chaos show":    {"agent-stopped"},
		"chaos plan":    {"agent-stopped --node-id n1" + run},
		"chaos run":     {"agent-stopped --quiet --node-id n1" + run},
		"chaos report":  {"--list", "../../chaos/render/testdata/pass.json"},
		"chaos status":  {"" + run}, "chaos revert": {"" + run}, "chaos panic": {"" + run}, "chaos residue": {"" + run},
	}
}

// elsewhere are commands that write another command's document, or that need more than this test has.
var elsewhere = map[string]string{
	"diag show":  "the document of diag decode",
	"diag watch": "the lines of diag decode",
	"lab status": "needs a lab",
}

// TestEveryDocumentSaysWhatItIs: each JSON document of a command has apiVersion and kind, and so has each element of a
// list and each line of NDJSON. A command that is missing in the table fails.
func TestEveryDocumentSaysWhatItIs(t *testing.T) {
	tier.NeedsHost(t)
	p := &mappedPlatform{t: t}
	documents := documentsOf()
	helper, err := exec.LookPath(policy.Program) // TestMain has put it there
	if err != nil {
		t.Fatal(err)
	}
	helpers := filepath.Dir(helper)
	p.run = func(args []string) int {
		dir := filepath.Dir(args[len(args)-1]) // the profile's folder
		a := &cmdutil.App{Stdin: strings.NewReader(""), Stderr: &bytes.Buffer{}, Env: func(key string) string {
			return map[string]string{"HOME": dir, "XDG_STATE_HOME": dir, "XDG_CONFIG_HOME": dir, "TMPDIR": dir}[key]
		}}
		worldOfDocuments(t, dir)
		a.Stdout = &bytes.Buffer{}
		// is kept
		_ = execute(a, t.Context(),
			[]string{"preflight", "--api-base", "http://127.0.0.1:1", "--node-id", "n1", "--only", "control_plane_access"})
		root, _ := newRoot(a, nil)
		for _, cmd := range leaves(root) {
			name := strings.TrimPrefix(cmd.CommandPath(), "gpuaasctl ")
			for _, format := range formatsOf(cmd) {
				if format != cmdutil.FormatJSON && format != cmdutil.FormatNDJSON {
					continue
				}
				forms, known := documents[name]
				if _, told := elsewhere[name]; !known && !told {
					t.Errorf("%s writes %s, and is not in this test's table", name, format)
				}
				for _, form := range forms {
					form = strings.NewReplacer("DIR", dir, "FORMAT", format, "HELPERS", helpers).Replace(form)
					out, errs := &bytes.Buffer{}, &bytes.Buffer{}
					a.Stdout, a.Stderr = out, errs
					args := slices.Concat(strings.Fields(name), strings.Fields(form))
					if cmd.Flags().Lookup("output") != nil {
						args = append(args, "-o", format)
					}
					code := execute(a, t.Context(), args)
					if strings.Contains(errs.String(), "is not supported here") {
						continue
					}
					if code == cmdutil.ExitUsage || code == cmdutil.ExitInternal || out.Len() == 0 {
						t.Errorf("%s %s -o %s: exit %d, %d bytes; %s", name, form, format, code, out.Len(), errs)
						continue
					}
					for _, text := range split(t, out.Bytes(), format) {
						var head diag.Head
						if err := json.Unmarshal(text, &head); err != nil || head.APIVersion != diag.APIVersion || head.Kind == "" {
							t.Errorf("%s %s -o %s: %v, its head is %+v:\n%.300s", name, form, format, err, head, text)
						}
					}
				}
			}
		}
		return 0
	}
	p.runOn(nil)
}

// split returns the documents in a text.
func split(t *testing.T, text []byte, format string) (all []json.RawMessage) {
	t.Helper()
	switch {
	case format == cmdutil.FormatNDJSON:
		for line := range bytes.Lines(text) {
			all = append(all, line)
		}
	case text[0] == '[':
		if err := json.Unmarshal(text, &all); err != nil || len(all) == 0 {
			t.Errorf("%d elements, %v", len(all), err)
		}
	default:
		all = append(all, text)
	}
	return all
}

// leaves returns the commands without subcommands.
func leaves(cmd *cobra.Command) (all []*cobra.Command) {
	if cmd.Runnable() {
		all = append(all, cmd)
	}
	for _, c := range cmd.Commands() {
		all = append(all, leaves(c)...)
	}
	return all
}

// formatsOf returns the values of a command's -o, or its only format.
func formatsOf(cmd *cobra.Command) []string {
	complete, ok := cmd.GetFlagCompletionFunc("output")
	if !ok && cmd.Name() == "export" {
		return []string{cmdutil.FormatNDJSON}
	}
	if !ok {
		return nil
	}
	all, _ := complete(cmd, nil, "")
	return all
}

// worldOfDocuments creates the files that the commands of the table read in dir.
func worldOfDocuments(t *testing.T, dir string) {
	t.Helper()
	if err := records(&testscript.Env{WorkDir: dir}); err != nil {
		t.Fatal(err)
	}
	profileFile := filepath.Join(dir, "p.yaml")
	text, err := os.ReadFile(profileFile)
	if err != nil {
		t.Fatal(err)
	}
	events := golden(t, "chaos", "render", "testdata", "pass.events.ndjson")
	kept := filepath.Join(dir, "gpuaasctl", "drills", "261121-090000-ab12")
	for name, text := range map[string][]byte{filepath.Join(kept, "events.ndjson"): events,
		filepath.Join(dir, "gpuaasctl", "profiles", "one.yaml"): text,
		profileFile: append(text, "nodes: {n1: {host: 127.0.0.1}}\nssh: {port: 1}\nchaos: {allow: true}\n"+
			"node_runtime_api_url: https://api.test\nnode_runtime_resolve_address: 127.0.0.1\n"...)} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
