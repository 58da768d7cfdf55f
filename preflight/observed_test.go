package preflight

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/profile"
)

// silentBy returns the answers of a node that the platform no longer hears from, with one more changed fact.
func silentBy(id string, change func(*diag.Fact)) answers {
	return with(silentAgent(), answers{id: change})
}

func unit(u diag.UnitFacts, word diag.Failure) func(*diag.Fact) {
	return func(f *diag.Fact) { f.Failure, f.Phase, f.Unit = word, "systemctl", &u }
}

// dated sets the end of a certificate that was read on the node.
func dated(notAfter time.Time) func(*diag.Fact) {
	return func(f *diag.Fact) {
		f.Failure, f.Phase, f.Cert.Leaf.NotAfter = diag.MTLSCertExpired, "dates", diag.At(notAfter)
	}
}

// ahead is a node whose clock is d ahead of the operator's.
func ahead(d time.Duration) func(*diag.Fact) {
	ms := d.Milliseconds()
	return func(f *diag.Fact) { f.Clock = &diag.ClockFacts{OffsetMS: &ms} }
}

// dateOf gives the platform's answers a date.
func dateOf(t time.Time) func(*diag.Fact) { return func(f *diag.Fact) { f.HTTP.Date = diag.At(t) } }

// TestObserved: a fact that has the cause makes its blame observed; one that only looks like the cause does not.
func TestObserved(t *testing.T) {
	const process, identity, wait = "node_readiness/process", "node_recovery_status/identity",
		"node_recovery_status/task_wait"
	const clock, auth, healthz = "node_readiness/clock", "control_plane_access/auth", "control_plane_access/healthz"
	refusedWait := func(change func(*diag.Fact)) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.Failure, f.Phase, f.HTTP = diag.MTLSIngress400, "http", &diag.HTTPFacts{Status: 400,
				Page: "ssl_certificate_error"}
			f.TLS.AcceptableCAs, f.TLS.CertSent = []string{"CN=another"}, "77"
			change(f)
		}
	}
	serial := func(f *diag.Fact) { f.Cert.Leaf.Serial = "77" }
	denied := func(code string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.Failure, f.Phase = diag.HTTPStatus, "http"
			f.HTTP = &diag.HTTPFacts{Status: 403, Fields: map[string]string{"error.code": code}}
		}
	}
	edge := func(status int) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.Failure, f.Phase, f.HTTP = diag.HTTPEdgePage, "http", &diag.HTTPFacts{Status: status, Page: "edge_error"}
		}
	}
	down := failWith(diag.TCPRefused, "tcp")
	for _, tc := range []struct {
		name    string
		answers answers
		signal  diag.Signal
		word    diag.Confidence
		fact    string // of the observation
	}{
		{"a masked unit", silentBy(process, unit(diag.UnitFacts{Load: "masked", Active: "inactive"}, diag.UnitInactive)),
			diag.SigProcessDown, diag.Observed, process},
		{"a masked unit, and the agent answers under another one",
			answers{process: unit(diag.UnitFacts{Load: "masked", Active: "inactive"}, diag.UnitInactive)},
			diag.SigProcessDown, diag.Likely, ""},
		{"an agent that failed, and all that it needs is well",
			silentBy(process, unit(diag.UnitFacts{Load: "loaded", Active: "failed", Result: "exit-code"}, diag.UnitFailed)),
			diag.SigProcessDown, diag.Observed, process},
		{"an agent that failed, and its API does not answer: that may be why", with(silentAgent(), answers{
			process: unit(diag.UnitFacts{Load: "loaded", Active: "failed",
				Result: "exit-code"}, diag.UnitFailed),
			"node_runtime_api_reachability/reach": failWith(diag.TCPRefused, "tcp")}),
			diag.SigProcessDown, diag.Likely, ""},
		{"a clock that is off by two others", answers{clock: ahead(time.Hour), healthz: dateOf(noon)},
			diag.SigClockSkew, diag.Observed, clock},
		{"a clock that is off, and the platform's date is a third time", answers{clock: ahead(time.Hour),
			healthz: dateOf(noon.Add(-5 * time.Hour))},
			diag.SigClockSkew, diag.Likely, ""},
		{"a unit that is not there may be the profile's mistake",
			silentBy(process, unit(diag.UnitFacts{Load: "not-found", Active: "inactive"}, diag.UnitMissing)),
			diag.SigProcessDown, diag.Likely, ""},
		{"a stopped main process", silentBy(process, unit(diag.UnitFacts{Load: "loaded", Active: "active", PID: 9,
			ProcessState: "T"}, diag.ProcessStopped)), diag.SigProcessDown, diag.Observed, process},
		{"a main process in a debugger's hands", silentBy(process, unit(diag.UnitFacts{Load: "loaded",
			Active: "active", PID: 9, ProcessState: "t"}, diag.ProcessStopped)), diag.SigProcessDown, diag.Likely, ""},
		{"a main process that systemd has not reaped yet", silentBy(process, unit(diag.UnitFacts{Load: "loaded",
			Active: "active", PID: 9, ProcessState: "Z"}, diag.ProcessStopped)), diag.SigProcessDown, diag.Likely, ""},
		{"a main process that was gone", silentBy(process, unit(diag.UnitFacts{Load: "loaded", Active: "active",
			PID: 9}, diag.ProcessStopped)), diag.SigProcessDown, diag.Likely, ""},

		{"a certificate past its date", with(silentBy(identity, dated(noon.Add(-time.Hour))),
			answers{wait: refusedWait(func(*diag.Fact) {})}),
			diag.SigAuthFailed, diag.Observed, identity},
		{"a certificate past its date by the node's clock alone",
			with(silentBy(identity, dated(noon.Add(-time.Hour))), answers{clock: ahead(2 * time.Hour),
				wait: refusedWait(func(*diag.Fact) {})}),
			diag.SigAuthFailed, diag.Likely, ""},
		{"a certificate past its date, and the platform's clock is before it", with(silentBy(identity,
			dated(noon.Add(-time.Hour))),
			answers{healthz: dateOf(noon.Add(-3 * time.Hour)), wait: refusedWait(func(*diag.Fact) {})}),
			diag.SigAuthFailed, diag.Likely, ""},

		{"a refused certificate of an issuer that is not listed", with(silentAgent(), answers{identity: serial,
			wait:                                refusedWait(func(*diag.Fact) {}),
			auth:                                setField("trust.ingress_trusts_signing_ca", "true"),
			"node_terminal_reachability/stream": failWith(diag.MTLSUnknownCA, "mtls")}),
			diag.SigAuthFailed, diag.Observed, wait},
		{"the same, and nobody says what the ingress trusts", with(silentAgent(), answers{identity: serial,
			wait:                                refusedWait(func(*diag.Fact) {}),
			"node_terminal_reachability/stream": failWith(diag.MTLSUnknownCA, "mtls")}),
			diag.SigAuthFailed, diag.Likely, ""},
		{"the same, and another certificate was sent", with(silentAgent(), answers{wait: refusedWait(func(*diag.Fact) {}),
			auth:                                setField("trust.ingress_trusts_signing_ca", "true"),
			"node_terminal_reachability/stream": failWith(diag.MTLSUnknownCA, "mtls")}),
			diag.SigAuthFailed, diag.Likely, ""},
		{"an issuer by the name of one that is listed", with(silentAgent(), answers{identity: serial,
			wait: refusedWait(func(f *diag.Fact) {
				f.TLS.AcceptableCAs = []string{"CN=signing"}
			}),
			auth:                                setField("trust.ingress_trusts_signing_ca", "true"),
			"node_terminal_reachability/stream": failWith(diag.MTLSUnknownCA, "mtls")}),
			diag.SigAuthFailed, diag.Likely, ""},
		{"a denial with its code", answers{wait: denied("fenced"),
			"node_terminal_reachability/stream": denied("fenced")}, diag.SigAuthFailed, diag.Observed, wait},
		{"a denial of an ingress that has no code", answers{wait: denied("")}, diag.SigAPIUnreachable, diag.Likely, ""},
		{"a denial in an unknown word", answers{wait: denied("out_of_office")}, diag.SigAPIUnreachable, diag.Likely, ""},

		{"an edge that got no answer, nor does the node", with(silentAgent(), answers{healthz: edge(502),
			auth: edge(502), "control_plane_access/healthz~other-route": edge(502), "node_runtime_api_reachability/reach": down,
			"node_runtime_api_reachability/reach~from-operator": down, "node_runtime_api_reachability/reach~bare": down}),
			diag.SigControlPlaneUnreachable, diag.Observed, healthz},
		{"an edge that got no answer, and the node does", answers{healthz: edge(502), auth: edge(502),
			"control_plane_access/healthz~other-route": edge(502)},
			diag.SigControlPlaneUnreachable, diag.Likely, ""},
		{"a page for maintenance", with(silentAgent(), answers{healthz: edge(503), auth: edge(503),
			"node_runtime_api_reachability/reach":               down,
			"node_runtime_api_reachability/reach~from-operator": down, "control_plane_access/healthz~other-route": edge(503)}),
			diag.SigControlPlaneUnreachable, diag.Likely, ""},

		{"a workload's unit that ended", answers{"app_runtime_liveness/unit": unit(diag.UnitFacts{Load: "loaded",
			Active: "failed"}, diag.UnitFailed), "app_runtime_liveness/port": down, "app_user_route/route": edge(502)},
			diag.SigAppStopped, diag.Observed, "app_runtime_liveness/unit"},
		{"a workload's unit that ended, and its port answers",
			answers{"app_runtime_liveness/unit": unit(diag.UnitFacts{Load: "loaded", Active: "failed"}, diag.UnitFailed)},
			diag.SigAppStopped, diag.Likely, ""},
		{"a stale count of the platform's own", answers{"node_heartbeat/read_model": setField("node.stale_tasks", "3"),
			"node_task_roundtrip/backlog_after": setField("node.stale_tasks", "3")},
			diag.SigTaskBacklogStale, diag.Observed, "node_task_roundtrip/backlog_after"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := walkWith(t, tc.answers).Verdict
			if v.Blame == nil || v.Blame.Signal != tc.signal || v.Confidence != tc.word {
				t.Fatalf("blame %+v, %s, want %s %s (%+v, %+v)", v.Blame, v.Confidence, tc.signal, tc.word, v.Observation, v.Proof)
			}
			if (v.Observation != nil && v.Observation.Fact != tc.fact) || (v.Observation == nil && tc.fact != "") {
				t.Errorf("%+v, want %q", v.Observation, tc.fact)
			}
		})
	}
}

// TestObservationIsOfTheBlamedCause: another fault than the blame is not its observation.
func TestObservationIsOfTheBlamedCause(t *testing.T) {
	expired := func(f *diag.Fact) {
		f.Failure, f.Phase, f.HTTP, f.WS = diag.TLSExpired, "tls", nil, nil
		f.TLS = &diag.TLSFacts{Chain: []diag.CertInfo{{Subject: "CN=term.test",
			NotBefore: diag.At(noon.Add(-time.Hour)), NotAfter: diag.At(noon.Add(-time.Minute))}}}
	}
	full := func(f *diag.Fact) {
		f.Failure, f.Phase, f.Errno = diag.DiskFull, "write", "ENOSPC"
		f.Disk = &diag.DiskFacts{TotalBytes: 10, UsedPercent: 100}
	}
	t.Run("a certificate past its date at another listener", func(t *testing.T) {
		v := walkWith(t, with(silentAgent(), answers{
			"node_runtime_api_reachability/reach":               failWith(diag.TCPTimeout, "tcp"),
			"node_runtime_api_reachability/reach~bare":          failWith(diag.TCPTimeout, "tcp"),
			"node_runtime_api_reachability/reach~from-operator": failWith(diag.TCPTimeout, "tcp"),
			"node_terminal_reachability/stream":                 expired,
			"node_terminal_reachability/stream~host-view":       expired,
			"node_terminal_reachability/stream~active-bundle":   expired,
		})).Verdict
		if v.Blame.Hop != diag.HopNodeRuntimeAPI || v.Confidence == diag.Observed || v.Observation != nil {
			t.Errorf("%s %s %+v", v.Blame.Hop, v.Confidence, v.Observation)
		}
		i := slices.IndexFunc(v.OtherFindings, func(b diag.Blame) bool { return b.Hop == diag.HopNodeTerminalReachability })
		if i < 0 || v.OtherFindings[i].Confidence != diag.Observed {
			t.Errorf("the other listener's own finding: %+v", v.OtherFindings)
		}
	})
	t.Run("a full disk on another mount", func(t *testing.T) {
		v := walkWith(t, with(silentAgent(), answers{
			"node_readiness/root_disk": full, "node_readiness/root_disk~run": full, "node_readiness/process": unitDown,
		})).Verdict
		if o := v.Observation; v.Blame.Signal != diag.SigDiskFull || o == nil || o.Fact != "node_readiness/root_disk" ||
			o.Field != "errno" {
			t.Errorf("%+v %+v", v.Blame, o)
		}
		if len(v.OtherFindings) != 1 || v.OtherFindings[0].Observation == nil ||
			v.OtherFindings[0].Observation.Fact != "node_readiness/process" {
			t.Errorf("the unit's own finding: %+v", v.OtherFindings)
		}
	})
	t.Run("a result of another task", func(t *testing.T) {
		entry := func(task string) func(*diag.Fact) {
			return func(f *diag.Fact) {
				f.Record.Entries = append(f.Record.Entries, diag.RecordEntry{Seq: 2, BootID: "boot-1", At: diag.At(noon),
					Status: 503, Reason: diag.RecTaskResultPostFailed, About: "task_result", Decision: "retry", TaskID: task})
			}
		}
		for task, word := range map[string]diag.Confidence{"task-1": diag.Observed, "task-of-yesterday": diag.Likely} {
			v := walkWith(t, answers{
				"node_task_roundtrip/task": func(f *diag.Fact) {
					f.HTTP.Fields["task.status"], f.Failure, f.Phase = "dispatched", diag.HTTPTimeout, "poll"
					delete(f.HTTP.Fields, "task.completed_at")
				},
				"node_task_roundtrip/record_after": entry(task), // the first reading came before the refusal
			}).Verdict
			if v.Blame == nil || v.Blame.Signal != diag.SigResultPostFailed || v.Confidence != word {
				t.Errorf("%s: %+v %s", task, v.Blame, v.Confidence)
			}
		}
	})
}

// TestBacklogIsWhatASweepLeaves: a platform counts expired tasks until its next sweep. Only those that are left after
// it are a backlog, and without the second reading that is not known.
func TestBacklogIsWhatASweepLeaves(t *testing.T) {
	const after = "node_task_roundtrip/backlog_after"
	counted := answers{"node_heartbeat/read_model": setField("node.stale_tasks", "1")}
	for name, tc := range map[string]struct {
		later func(*diag.Fact)
		want  diag.Outcome
	}{ // the platform sweeps every 5 s
		"swept":     {setField("node.stale_tasks", "0"), diag.OutcomePass},
		"left":      {setField("node.stale_tasks", "1"), diag.OutcomeFail},
		"grown":     {setField("node.stale_tasks", "9"), diag.OutcomeFail},
		"limited":   {limitedFact(429, false), diag.OutcomeInconclusive},
		"no answer": {failWith(diag.TCPTimeout, "tcp"), diag.OutcomeInconclusive},
		"no count":  {setField("node.stale_tasks", ""), diag.OutcomeInconclusive},
		"no number": {setField("node.stale_tasks", "many"), diag.OutcomeInconclusive},
	} {
		r := walkWith(t, with(counted, answers{after: tc.later}))
		if r.Verdict.Outcome != tc.want {
			t.Errorf("%s: %s, want %s\n%s", name, r.Verdict.Outcome, tc.want, describe(r))
		}
	}
	r := walkWith(t, with(counted, answers{after: setField("node.stale_tasks", "1")}))
	r.Plan.Policy[profile.PolicyTaskSweepInterval] = 60
	if verdict.Judge(hops.BuiltIn(), r); r.Verdict.Outcome != diag.OutcomeWarn {
		t.Errorf("no sweep was due: %s\n%s", r.Verdict.Outcome, describe(r))
	}
	if r := walkWith(t, nil); slices.ContainsFunc(r.Facts, func(f diag.Fact) bool { return f.ID == after }) {
		t.Error("asked again without a backlog")
	}
}

// TestABacklogHidesNoOtherReason: the platform's reason about the node's identity is kept if the second reading of a
// backlog got no answer, or if no sweep was due.
func TestABacklogHidesNoOtherReason(t *testing.T) {
	const after = "node_task_roundtrip/backlog_after"
	revoked := func(f *diag.Fact) {
		setField("node.stale_tasks", "1")(f)
		setField("node.recovery_reason", string(diag.ReasonIdentityRevokedOrFenced))(f)
	}
	for name, later := range map[string]func(*diag.Fact){"no answer": failWith(diag.TCPTimeout, "tcp"), "left": revoked} {
		for _, every := range []int64{5, 60} {
			r := walkWith(t, answers{"node_heartbeat/read_model": revoked, after: later})
			r.Plan.Policy[profile.PolicyTaskSweepInterval] = every
			if verdict.Judge(hops.BuiltIn(), r); r.Classification.Reason != diag.ReasonIdentityRevokedOrFenced {
				t.Errorf("%s, a sweep every %d s: %s\n%s", name, every, r.Classification.Reason, describe(r))
			}
		}
	}
}

// TestNoSupportWhileAnExplanationIsOpen: a failing route is not proven to be at fault while it was not measured whether
// its workload runs.
func TestNoSupportWhileAnExplanationIsOpen(t *testing.T) {
	broken := func(f *diag.Fact) {
		f.Failure, f.Phase, f.HTTP = diag.HTTPEdgePage, "http", &diag.HTTPFacts{Status: 502, Page: "edge_error"}
	}
	passes := func(f *diag.Fact) { f.HTTP = &diag.HTTPFacts{Status: 200} }
	route := answers{"app_user_route/route": broken, "app_user_route/route~other-route": passes}
	v := walkWith(t, route).Verdict
	if v.Blame.Hop != diag.HopAppUserRoute || v.Confidence != diag.Proven || v.Proof.Changed != "target" {
		t.Errorf("%+v %s %+v", v.Blame, v.Confidence, v.Proof)
	}
	v = walkWith(t, with(route, answers{"node_ops_access/ssh": failWith(diag.TCPRefused,
		"tcp")})).Verdict
	i := slices.IndexFunc(v.OtherFindings, func(b diag.Blame) bool { return b.Hop == diag.HopAppUserRoute })
	if i < 0 || v.OtherFindings[i].Confidence != diag.Likely || v.OtherFindings[i].Proof != nil {
		t.Errorf("without a login: %+v", v.OtherFindings)
	}
}
