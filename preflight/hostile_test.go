package preflight

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// A report may come from anywhere: facts without their sections, sections without their values, plans that leave out
// what a judge would read. No judge panics on any of it.
func TestHollowFactsArePanicFree(t *testing.T) {
	e := testEnv()
	hollow := map[string]func(*diag.Fact){
		"no section":    func(*diag.Fact) {},
		"wrong section": func(f *diag.Fact) { f.Clock = &diag.ClockFacts{} },
		"empty sections": func(f *diag.Fact) {
			f.DNS, f.TCP, f.TLS, f.HTTP, f.WS, f.PTY = &diag.DNSFacts{}, &diag.TCPFacts{}, &diag.TLSFacts{}, &diag.HTTPFacts{},
				&diag.WSFacts{}, &diag.PTYFacts{}
			f.SSH, f.Disk, f.File, f.Cert, f.Unit = &diag.SSHFacts{}, &diag.DiskFacts{}, &diag.FileFacts{}, &diag.CertFacts{},
				&diag.UnitFacts{}
			f.Binary, f.User, f.Clock, f.Env = &diag.BinaryFacts{}, &diag.UserFacts{}, &diag.ClockFacts{}, &diag.EnvFacts{}
		},
	}
	words := append([]diag.Failure{diag.OK, "no such word"}, diag.Failures[:]...)
	for name, fill := range hollow {
		for i, word := range words {
			if testing.Short() && i%6 > 1 { // the race detector's run: the code is the same
				continue
			}
			for _, phase := range []string{"", "dns", "tcp", "tls", "http", "ws", "pty", "env", "cert"} {
				plan := testPlan(e)
				r := &diag.Report{Head: diag.NewHead(diag.KindPreflight), Subject: e.Subject, Plan: plan,
					Run: diag.Run{EndedBy: diag.EndedCompleted}}
				for _, h := range hops.BuiltIn().List() {
					for _, s := range h.Steps {
						f := diag.Fact{ID: s.Fact(h.ID), Vantage: s.From, Failure: word, Phase: phase}
						if s.Uses == "" {
							fill(&f)
							r.Facts = append(r.Facts, f)
						}
					}
				}
				again, err := verdict.Replay(hops.BuiltIn(), r)
				if err != nil {
					t.Fatalf("%s, %q in %q: %v", name, word, phase, err)
				}
				if name == "no section" && again.Verdict.Outcome == diag.OutcomePass {
					t.Errorf("nothing was measured, and it is a pass")
				}
			}
		}
	}
}

// Each step in turn is left out of the plan, while all the others pass.
func TestAnyStepMayBeLeftOut(t *testing.T) {
	whole := walkWith(t, nil)
	for _, h := range hops.BuiltIn().List() {
		for _, s := range h.Steps {
			r := *whole
			r.Plan, r.Facts = testPlan(testEnv()), nil
			for i := range r.Plan.Hops {
				if r.Plan.Hops[i].ID == h.ID {
					r.Plan.Hops[i].Left = map[string]string{s.Name: "for a test"}
				}
			}
			for _, f := range whole.Facts {
				if f.ID != s.Fact(h.ID) {
					r.Facts = append(r.Facts, f)
				}
			}
			again, err := verdict.Replay(hops.BuiltIn(), &r)
			if err != nil {
				t.Fatalf("%s/%s: %v", h.ID, s.Name, err)
			}
			for _, f := range hopOf(again, h.ID).Evidence {
				if f == s.Fact(h.ID) {
					t.Errorf("%s/%s was left out, and is evidence", h.ID, s.Name)
				}
			}
		}
	}
}
