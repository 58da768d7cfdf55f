package house

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestNodeProgramsStaySlim: programs on nodes link no library of the operator's, whichever package imports it.
func TestNodeProgramsStaySlim(t *testing.T) {
	tier.NeedsHost(t)
	allowed := map[string][]string{
		"gpuaas-agent": {"golang.org/x/sys/unix", "golang.org/x/net/dns/dnsmessage"},
		"gpuaas-fault": {"golang.org/x/sys/unix"},
	}
	for program, others := range allowed {
		cmd := exec.Command("go", "list", "-deps", "-tags", "nethttpomithttp2", "./cmd/"+program)
		cmd.Dir = "../.."
		cmd.Env = append(cmd.Environ(), "GOOS=linux", "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", cmd, err)
		}
		linked := map[string]bool{}
		for pkg := range strings.FieldsSeq(string(out)) {
			first, _, _ := strings.Cut(pkg, "/")
			if strings.Contains(first, ".") && !strings.HasPrefix(pkg, module) {
				linked[pkg] = true
			}
		}
		for _, pkg := range others {
			if !linked[pkg] {
				t.Errorf("%s does not link %s any more: take it from the list", program, pkg)
			}
			delete(linked, pkg)
		}
		for pkg := range linked {
			t.Errorf("%s links %s", program, pkg)
		}
	}
}

// TestOnlyOneProgramLinksCEL: CEL is 5 MB, too much for the tool and the programs on nodes; the platform runs the
// program that links it.
func TestOnlyOneProgramLinksCEL(t *testing.T) {
	tier.NeedsHost(t)
	for program, links := range map[string]bool{
		"gpuaas-gpu-policy": true, "gpuaasctl": false, "gpuaas-agent": false, "gpuaas-fault": false, "gpuaas-platform": false,
	} {
		for _, system := range []string{"linux", "darwin"} {
			if system == "darwin" && !strings.HasPrefix(program, "gpuaasctl") {
				continue
			}
			cmd := exec.Command("go", "list", "-deps", "./cmd/"+program)
			cmd.Dir = "../.."
			cmd.Env = append(cmd.Environ(), "GOOS="+system, "CGO_ENABLED=0")
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s: %v", cmd, err)
			}
			if got := strings.Contains(string(out), "cel.dev/"); got != links {
				t.Errorf("%s for %s links CEL: %t", program, system, got)
			}
		}
	}
}

// TestProbeBuildsForMacOS: operators have the tool on macOS, too, and no other test compiles it for that.
func TestProbeBuildsForMacOS(t *testing.T) {
	tier.NeedsHost(t)
	cmd := exec.Command("go", "list", "-export", "./preflight/...")
	cmd.Dir = "../.."
	cmd.Env = append(cmd.Environ(), "GOOS=darwin", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", cmd, err, out)
	}
}

// TestToolCallsNoMethodByName: text/template finds methods by name. A program that can reach it keeps every exported
// method of every type: 2.4 of gpuaasctl's 25 MB. cobra imports it, for templates that we do not set.
func TestToolCallsNoMethodByName(t *testing.T) {
	tier.NeedsHost(t)
	cmd := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}}{{range .Imports}} {{.}}{{end}}", "./cmd/gpuaasctl")
	cmd.Dir = "../.."
	cmd.Env = append(cmd.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if words[0] != "github.com/spf13/cobra" && slices.Contains(words[1:], "text/template") {
			t.Errorf("%s imports text/template", words[0])
		}
	}
}
