//go:build linux && mutants

package node

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/tools/testkit/mutanttest"
)

// TestMutants breaks the node side in the most important ways, and requires the tests to detect that. All
// mutants are one program, which takes a minute, so it has a build tag and a separate line in the Makefile.
func TestMutants(t *testing.T) {
	const keeper, journal, file, ledger, block = "chaos/node/keeper.go", "chaos/node/journal.go",
		"chaos/node/place_file.go", "chaos/step/ledger.go", "chaos/step/block.go"
	// it ends with the first that fails
	rapid := []string{"-rapid.checks=2000", "-rapid.nofailfile", "-rapid.shrinktime=0s"}
	all := []mutanttest.Mutant{
		{Name: "does before it is in the journal", File: keeper, Test: "TestKeeper",
			Old: "\t\tif err := k.change(at, step.Intent, \"\", note); err != nil {\n\t\t\treturn err\n\t\t}\n\t\tat.Note = " +
				"note\n\t\terr = k.Machine.Make(ctx, at)\n",
			New: "\t\tat.Note = note\n\t\terr = k.Machine.Make(ctx, at)\n\t\tif err := k.change(at, step.Intent, \"\", note); " +
				"err != nil {\n\t\t\treturn err\n\t\t}\n"},
		{Name: "does before the journal is on the disk", File: journal, Test: "TestKeeper", Old: "err := j.file.Sync()",
			New: "err := error(nil)"},
		{Name: "leaves the first change of a step", File: keeper, Test: "TestKeeper",
			Old: "n := len(s.Changes) - 1; n >= 0; n--", New: "n := len(s.Changes) - 1; n > 0; n--"},
		{Name: "leaves what was parked", File: file, Test: "TestFileComesBack",
			Old: "if err := os.Remove(p.parked()); err != nil &&", New: "if err := error(nil); err != nil &&"},
		{Name: "says reverted without looking", File: keeper, Test: "TestKeeper", Old: "case found.State == Injected:",
			New: "case false:"},
		{Name: "reports reverted for what somebody else restored", File: keeper, Test: "TestKeeper", Old: "return step.Lost",
			New: "return step.Reverted"},
		{Name: "undoes what somebody else made", File: keeper, Test: "TestKeeper",
			Old: "\t\treturn true, say(step.Conflict, found.Text)\n\tcase found.State == Injected && reader",
			New: "\tcase found.State == Injected && reader"},
		{Name: "reverts over an edit", File: file, Test: "TestFileJustNow",
			Old: `return fmt.Errorf("somebody changed %s just now", f.Path)`, New: "return os.Rename(p.parked(), f.Path)"},
		{Name: "takes the neighbours' rules along", File: block, Test: "TestKeeperReal",
			Old: `"delete table inet " + table + "\n"`, New: `"flush ruleset\n"`, Root: true},
		{Name: "lives on without its lease", File: ledger, Test: "TestKeeper", Old: "if lease < ttl {",
			New: "if lease < ttl && false {"},
		{Name: "outlives its time", File: ledger, Test: "TestKeeper", Old: "return ttl, WhyTTL",
			New: "return ttl + time.Hour, WhyTTL"},
		{Name: "goes on after a reboot", File: ledger, Test: "TestExpired", Package: "./chaos/step",
			Old: "case boot != l.Boot:", New: "case boot != l.Boot && false:"},
		{Name: "two drills on one machine", File: keeper, Test: "TestKeeper",
			Old: "if l.Final() && (l.Closed || l.State() != step.Conflict) && !guarded {", New: "if guarded || true {"},
		{Name: "starts what somebody stopped", File: "chaos/node/systemctl.go", Test: "TestUnit",
			Old: "!u.Unmet && !byItself", New: "!u.Unmet && !byItself && false", Root: true},
		{Name: "takes what was over for what was taken along", File: "chaos/node/systemctl.go", Test: "TestUnit",
			Old: "u.runs() && i < len(units) {", New: "(u.runs() || true) && i < len(units) {", Root: true},
		{Name: "takes a failed look for an undo", File: keeper, Test: "TestUnitUnseen", Old: "say(c.State, err.Error())",
			New: "say(step.Failed, err.Error())", Root: true},
		{Name: "keeps secrets after an undo", File: "chaos/node/drive.go", Test: "TestSecretsStayInMemory",
			Old: "return errors.Join(err, r.forget())", New: "return err", Root: true},
		{Name: "keeps secrets after a watch", File: "chaos/node/watch.go", Test: "TestSecretsStayInMemory",
			Old: "return errors.Join(ErrOver, r.forget())", New: "return ErrOver", Root: true},
		{Name: "writes secrets on the disk", File: "chaos/node/arm.go", Test: "TestSecretsStayInMemory",
			Old: "sealed, secrets := d.Seal()", New: "_, secrets := d.Seal()\n\tsealed := d", Root: true},
		{Name: "does not see routes", File: "chaos/node/fingerprint.go", Test: "TestPlantedResidue",
			Old: "step.ClassNet: netItems, ", New: "", Root: true},
	}
	for i, m := range all {
		if m.Package == "" {
			all[i].Package = "./chaos/node"
		}
		if m.Test == "TestKeeper" || m.Test == "TestKeeperReal" {
			all[i].Args, all[i].Sound = rapid, []string{"-rapid.checks=20", "-rapid.nofailfile"}
		}
	}
	mutanttest.Check(t, "../..", all)
}
