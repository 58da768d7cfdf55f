package classify

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"pgregory.net/rapid"
)

// TestEveryReasonIsOneRow: a reason is one row of the table and one rule, in the same order of precedence.
func TestEveryReasonIsOneRow(t *testing.T) {
	var rows, cands []diag.ReasonCode
	for _, r := range diag.Reasons() {
		if r.Code != diag.ReasonNone {
			rows = append(rows, r.Code)
		}
	}
	for _, c := range rules {
		if c.code != diag.ReasonNone {
			cands = append(cands, c.code)
		}
	}
	if !slices.Equal(rows, cands) {
		t.Errorf("rules are\n%v, the reasons\n%v", cands, rows)
	}
}

// TestMatrixIsClosed: 26 rows, no duplicate names, no budget weaker than its severity's.
func TestMatrixIsClosed(t *testing.T) {
	if n := len(diag.Scenarios()); n != 26 {
		t.Errorf("%d rows, the drift model has 26", n)
	}
	seen := map[string]bool{}
	for _, m := range diag.Scenarios() {
		if seen[m.ID] || m.ID == "" || m.Title == "" || len(m.Deciders) == 0 || m.Recovery.Render(nil) == "" {
			t.Errorf("%s: is there twice, or is incomplete", m.ID)
		}
		seen[m.ID] = true
		for _, code := range m.Reasons {
			if _, ok := diag.LookupReason(code); !ok {
				t.Errorf("%s: no reason %q", m.ID, code)
			}
		}
		if m.Detect <= 0 || m.Detect > limits[m.Severity].Detect {
			t.Errorf("%s: detection budget %v is weaker than %s", m.ID, m.Detect, m.Severity)
		}
		if limit := limits[m.Severity].Repair; limit != 0 && (m.Repair <= 0 || m.Repair > limit) {
			t.Errorf("%s: repair budget %v is weaker than %s", m.ID, m.Repair, m.Severity)
		}
	}
	for _, r := range rowRules {
		if !seen[r.row] {
			t.Errorf("a rule is of the row %s, which the matrix does not have", r.row)
		}
	}
}

func drawBool(t *rapid.T, name string) *bool {
	switch rapid.IntRange(0, 2).Draw(t, name) {
	case 0:
		return new(bool)
	case 1:
		yes := true
		return &yes
	}
	return nil
}

func drawInt(t *rapid.T, name string) *int {
	n := rapid.IntRange(-1, 2).Draw(t, name)
	if n < 0 {
		return nil
	}
	return &n
}

var codes = []string{"", "expired", "not_node_bound", "revoked", "fenced", "retired", "cloned", "profile_mismatch",
	"token_expired", "token_consumed", "new_word"}

func drawReason(t *rapid.T) diag.ReasonCode {
	return rapid.SampledFrom(append([]diag.ReasonCode{""}, reasonCodes()...)).Draw(t, "reason")
}

func reasonCodes() []diag.ReasonCode {
	var out []diag.ReasonCode
	for _, r := range diag.Reasons() {
		out = append(out, r.Code)
	}
	return out
}

func drawPoints(t *rapid.T, name string) []diag.CheckPoint {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) diag.CheckPoint {
		return diag.CheckPoint{
			ID:     rapid.SampledFrom(diag.Points[:]).Draw(t, "point"),
			Status: rapid.SampledFrom([]diag.Mark{diag.MarkPass, diag.MarkFail, diag.MarkUnknown}).Draw(t, "mark"),
			Text:   rapid.SampledFrom([]string{"one", "two"}).Draw(t, "text"),
		}
	}), 0, 4).Draw(t, name)
}

func drawNode(t *rapid.T) *NodeEvidence {
	n := &NodeEvidence{
		NeverHeard: rapid.Bool().Draw(t, "never"), StaleAfter: 2 * time.Minute,
		Identity: rapid.SampledFrom(append(codes, "accepted")).Draw(t, "identity"),
		Posture:  rapid.SampledFrom([]string{"", "serving", "recovering", "stopped", "quarantined"}).Draw(t, "posture"),
		Reason:   drawReason(t), CertExpired: drawBool(t, "expired"), StaleTasks: drawInt(t, "stale"),
		LostResults: drawInt(t, "lost"), Version: rapid.SampledFrom([]string{"", "v1", "v2"}).Draw(t, "version"),
		DesiredVersion: rapid.SampledFrom([]string{"", "v2"}).Draw(t, "desired"),
		Address:        rapid.SampledFrom([]string{"", "192.0.2.1"}).Draw(t, "address"),
		GuestAgent:     rapid.SampledFrom([]string{"", "down"}).Draw(t, "guest"),
		Addresses:      rapid.SliceOfN(rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2"}), 0, 2).Draw(t, "addresses"),
		Checklist:      drawPoints(t, "checklist"),
	}
	if rapid.Bool().Draw(t, "heard") {
		age := time.Duration(rapid.IntRange(0, 300).Draw(t, "age")) * time.Second
		n.HeartbeatAge = &age
	}
	if rapid.Bool().Draw(t, "contact") {
		age := time.Duration(rapid.IntRange(0, 300).Draw(t, "contact age")) * time.Second
		n.ContactAge = &age
	}
	return n
}

// fateful are the reasons that begin and end a quarantine. They are drawn more often, so that both occur in one record.
var fateful = [...]diag.RecordReason{diag.RecClonedIdentity, diag.RecRecoveryEnrolled}

func drawRecord(t *rapid.T) *diag.RecordFacts {
	f := &diag.RecordFacts{}
	n := rapid.IntRange(0, 8).Draw(t, "entries")
	first := rapid.IntRange(0, n).Draw(t, "of the first boot")
	for i := range n {
		boot := "boot-1"
		if i >= first {
			boot = "boot-2"
		}
		e := diag.RecordEntry{
			Seq: uint64(i + 1), BootID: boot,
			Reason: rapid.OneOf(rapid.SampledFrom(diag.RecordReasons[:]), rapid.SampledFrom(fateful[:])).Draw(t, "wrote"),
			About: rapid.SampledFrom([]string{"heartbeat", "task_wait", "task_result", "identity", "agent", "boot"}).
				Draw(t, "about"),
			Status: rapid.SampledFrom([]int{0, 403, 503}).Draw(t, "status"), MonoNS: int64(rapid.IntRange(0, 4).Draw(t, "mono")),
			Decision: rapid.SampledFrom([]string{"", "retry", "quarantine", "release", DecisionContact}).Draw(t, "decision"),
		}
		if rapid.Bool().Draw(t, "pin") {
			f.Pinned = append(f.Pinned, e)
		} else {
			f.Entries = append(f.Entries, e)
		}
	}
	return f
}

func drawProbed(t *rapid.T) Probed {
	var signals []diag.Signal
	for _, s := range diag.Signals() {
		signals = append(signals, s.Signal)
	}
	return Probed{
		Hop: rapid.SampledFrom(diag.HopIDs()).Draw(t, "hop"), Status: rapid.SampledFrom(diag.Statuses[:]).Draw(t, "status"),
		Signal:  rapid.SampledFrom(append(signals, "")).Draw(t, "signal"),
		Failure: rapid.SampledFrom(diag.Failures[:]).Draw(t, "failure"), Reason: drawReason(t),
		Text: rapid.SampledFrom([]string{"", "x"}).Draw(t, "text"),
		By:   rapid.SampledFrom([]diag.HopID{"", diag.HopNodeReadiness}).Draw(t, "by"),
	}
}

func drawEvidence(t *rapid.T) Evidence {
	e := Evidence{
		BootID: rapid.SampledFrom([]string{"", "boot-1", "boot-2"}).Draw(t, "now"), Points: drawPoints(t, "points"),
		Token:  rapid.SampledFrom([]TokenState{TokenUnknown, TokenCurrent, TokenGone}).Draw(t, "token"),
		Probes: rapid.SliceOfN(rapid.Custom(drawProbed), 0, 6).Draw(t, "probes"),
		Denials: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Denial {
			return Denial{Source: "probe", Code: rapid.SampledFrom(codes).Draw(t, "code"), Asked: drawBool(t, "asked")}
		}), 0, 3).Draw(t, "denials"),
	}
	if rapid.Bool().Draw(t, "has node") {
		e.Node = drawNode(t)
	}
	if rapid.Bool().Draw(t, "has app") {
		at := func(name string) time.Time {
			return time.Unix(int64(rapid.IntRange(0, 3).Draw(t, name)), 0)
		}
		e.App = &AppEvidence{
			State:  rapid.SampledFrom([]string{"active", "release_failed"}).Draw(t, "state"),
			Status: rapid.SampledFrom([]string{"running", "failed"}).Draw(t, "app"), ObservedAt: at("observed"),
			ProbeFailedAt: at("failed"), CredentialBad: drawBool(t, "credential"),
		}
	}
	if rapid.Bool().Draw(t, "has trust") {
		e.Trust = &TrustEvidence{SigningCA: "aa", IngressCA: rapid.SampledFrom([]string{"", "aa", "bb"}).Draw(t, "ingress")}
	}
	if rapid.Bool().Draw(t, "has record") {
		e.Record = drawRecord(t).InTime()
	}
	return e
}

// shuffled returns the same evidence in another order.
func shuffled(e Evidence, seed int64) Evidence {
	r := rand.New(rand.NewSource(seed)) //nolint:gosec // a test's order
	mix := func(n int, swap func(i, j int)) { r.Shuffle(n, swap) }
	e.Probes, e.Denials, e.Points = slices.Clone(e.Probes), slices.Clone(e.Denials), slices.Clone(e.Points)
	mix(len(e.Probes), reflect.Swapper(e.Probes))
	mix(len(e.Denials), reflect.Swapper(e.Denials))
	mix(len(e.Points), reflect.Swapper(e.Points))
	if e.Node != nil {
		n := *e.Node
		n.Checklist, n.Addresses = slices.Clone(n.Checklist), slices.Clone(n.Addresses)
		mix(len(n.Checklist), reflect.Swapper(n.Checklist))
		mix(len(n.Addresses), reflect.Swapper(n.Addresses))
		e.Node = &n
	}
	if e.Record != nil { // the slots of the ring are in no particular order on disk
		var f diag.RecordFacts
		for _, n := range e.Record {
			f.Entries = append(f.Entries, *n)
		}
		mix(len(f.Entries), reflect.Swapper(f.Entries))
		e.Record = f.InTime()
	}
	return e
}

// less returns a subset of the evidence, with sources and lines removed.
func less(t *rapid.T, e Evidence) Evidence {
	if e.Node != nil && rapid.Bool().Draw(t, "drop node") {
		e.Node = nil
	}
	if rapid.Bool().Draw(t, "drop app") {
		e.App = nil
	}
	if rapid.Bool().Draw(t, "drop trust") {
		e.Trust = nil
	}
	if e.Record = some(t, e.Record); rapid.Bool().Draw(t, "drop record") {
		e.Record = nil
	}
	if rapid.Bool().Draw(t, "drop boot") {
		e.BootID = ""
	}
	if rapid.Bool().Draw(t, "drop token") {
		e.Token = TokenUnknown
	}
	e.Probes = e.Probes[:rapid.IntRange(0, len(e.Probes)).Draw(t, "keep probes")]
	e.Denials = e.Denials[:rapid.IntRange(0, len(e.Denials)).Draw(t, "keep denials")]
	e.Points = e.Points[:rapid.IntRange(0, len(e.Points)).Draw(t, "keep points")]
	return e
}

// some are any of the entries, in their order.
func some(t *rapid.T, entries []*diag.RecordEntry) []*diag.RecordEntry {
	return slices.DeleteFunc(
		slices.Clone(entries),
		func(*diag.RecordEntry) bool { return rapid.Bool().Draw(t, "drop entry") },
	)
}

func TestClassifyIsTotalAndDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvidence(t)
		c := Classify(e)
		row, ok := diag.LookupReason(c.Reason)
		if !ok || c.Title == "" || c.Owner == "" || c.Next == "" || c.Layer == "" || c.Runbook == "" ||
			len(c.Checklist) != 5 {
			t.Fatalf("incomplete: %+v", c)
		}
		if diag.Urgency(c.State) < 0 || (diag.Urgency(c.UserState) < 0 &&
			(c.UserState != diag.UserUnknown || c.Healthy || diag.Urgency(c.State) >= diag.Urgency(diag.UserOperator))) {
			t.Fatalf("states %q, %q", c.State, c.UserState)
		}
		if (c.Reason == diag.ReasonNone) != (c.Severity == "") || (c.Reason != diag.ReasonNone && len(c.Because) == 0) {
			t.Fatalf("%s: severity %q, because %v", c.Reason, c.Severity, c.Because)
		}
		if c.Severity == diag.P0 || c.Severity == diag.P1 {
			if c.DetectMS > limits[c.Severity].Detect.Milliseconds() || c.RepairMS == 0 ||
				c.RepairMS > limits[c.Severity].Repair.Milliseconds() {
				t.Fatalf("%s: budgets %d, %d are weaker than %s", c.Reason, c.DetectMS, c.RepairMS, c.Severity)
			}
		}
		if c.Healthy && (c.Reason != diag.ReasonNone ||
			slices.ContainsFunc(c.Checklist, func(p diag.CheckPoint) bool { return p.Status != diag.MarkPass })) {
			t.Fatalf("healthy without all five points: %+v", c)
		}
		for _, l := range c.Losers {
			if l.Why == "" || (l.Reason == c.Reason && row.Code != diag.ReasonNone) {
				t.Fatalf("%s lost to %s: %q", l.Reason, c.Reason, l.Why)
			}
		}
		if again := Classify(e); !reflect.DeepEqual(c, again) {
			t.Fatalf("not deterministic:\n%+v\n%+v", c, again)
		}
	})
}

func TestClassifyIsIndependentOfOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvidence(t)
		c, again := Classify(e), Classify(shuffled(e, rapid.Int64().Draw(t, "seed")))
		if !reflect.DeepEqual(c, again) {
			t.Fatalf("order matters:\n%+v\n%+v", c, again)
		}
	})
}

// TestSecurityIsMonotone: more evidence never weakens security_action_required, except evidence that the node has a new
// identity or that the platform released it.
func TestSecurityIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		more := drawEvidence(t)
		some := less(t, more)
		if a, b := Classify(some), Classify(more); ends(more.Record) == ends(some.Record) &&
			((a.State == diag.UserSecurity && b.State != diag.UserSecurity) ||
				(a.UserState == diag.UserSecurity && b.UserState != diag.UserSecurity)) {
			t.Fatalf("%s, %s became %s, %s", a.State, a.UserState, b.State, b.UserState)
		}
	})
}

// ends counts the entries that may end a quarantine.
func ends(record []*diag.RecordEntry) (n int) {
	for _, e := range record {
		if e.Reason == diag.RecRecoveryEnrolled || Released(e) {
			n++
		}
	}
	return n
}

// TestPrecedence: of two reasons that hops name, the earlier row is the verdict, whatever the order of the hops.
func TestPrecedence(t *testing.T) {
	all := reasonCodes()
	for i, a := range all {
		for _, b := range all[i+1:] {
			if b == diag.ReasonNone {
				continue
			}
			name := func(r diag.ReasonCode) Probed {
				return Probed{
					Hop:    diag.HopNodeRecoveryStatus,
					Status: diag.StatusFail,
					Signal: diag.SigAuthFailed,
					Reason: r,
					Text:   "named",
				}
			}
			c := Classify(Evidence{Probes: []Probed{name(b), name(a)}})
			if c.Reason != a || len(c.Losers) != 1 || c.Losers[0].Reason != b {
				t.Errorf("%s and %s: %s, losers %v", a, b, c.Reason, c.Losers)
			}
		}
	}
}

// TestNothingKnownIsNotHealthy: without evidence, a node is neither faulty nor healthy.
func TestNothingKnownIsNotHealthy(t *testing.T) {
	c := Classify(Evidence{})
	if c.Reason != diag.ReasonNone || c.Healthy {
		t.Errorf("%s, healthy %v", c.Reason, c.Healthy)
	}
	for _, p := range c.Checklist {
		if p.Status != diag.MarkUnknown {
			t.Errorf("%s is %s", p.ID, p.Status)
		}
	}
}

// TestOfANodeThatWasNeverSeen: a failure of the operator's own access, a node that the platform never saw, and an
// all-zero record are not evidence about the node. A single entry of its record is.
func TestOfANodeThatWasNeverSeen(t *testing.T) {
	refused := []Probed{{Hop: diag.HopControlPlaneAccess, Status: diag.StatusFail, Signal: diag.SigControlPlaneUnreachable,
		Failure: diag.TCPRefused}}
	spoke := []*diag.RecordEntry{
		{Seq: 1, BootID: "b", Reason: diag.RecAPIUnreachable, About: "heartbeat", Failure: diag.TCPRefused},
	}
	for name, c := range map[string]struct {
		e      Evidence
		reason diag.ReasonCode
		state  diag.UserState
	}{
		"nothing at all":          {Evidence{}, diag.ReasonNone, diag.UserUnknown},
		"the operator is cut off": {Evidence{Probes: refused}, diag.ReasonControlPlaneUnreachable, diag.UserUnknown},
		"never heard": {Evidence{Node: &NodeEvidence{NeverHeard: true, StaleAfter: time.Minute}},
			diag.ReasonNodeAgentUnreachable, diag.UserUnknown},
		"never heard, no backlog": {Evidence{Node: &NodeEvidence{NeverHeard: true, StaleTasks: new(int)}},
			diag.ReasonNodeAgentUnreachable, diag.UserUnknown},
		"never heard, no claim": {Evidence{Node: &NodeEvidence{NeverHeard: true}, Probes: []Probed{
			{Hop: diag.HopNodeTaskRoundtrip, Status: diag.StatusFail, Signal: diag.SigTaskClaimFailed,
				Text: "no agent claimed the no-op"},
			{Hop: diag.HopTerminalPublicRoute, Status: diag.StatusPass},
		}}, diag.ReasonNodeAgentUnreachable, diag.UserUnknown},
		"never heard, and revoked": {Evidence{Node: &NodeEvidence{NeverHeard: true, Identity: "revoked"}},
			diag.ReasonIdentityRevokedOrFenced, diag.UserOperator},
		"a record of zeros": {Evidence{Record: []*diag.RecordEntry{{}, {}, {}}}, diag.ReasonNone, diag.UserUnknown},
		"unknown reasons": {Evidence{Record: []*diag.RecordEntry{{Seq: 1, Reason: "of_tomorrow"}}}, diag.ReasonNone,
			diag.UserUnknown},
		"the node says so too": {Evidence{Probes: refused, Record: spoke}, diag.ReasonControlPlaneUnreachable,
			diag.UserTemporary},
		"its SSH answers": {Evidence{Probes: append(refused, Probed{Hop: diag.HopNodeOpsAccess, Status: diag.StatusPass})},
			diag.ReasonControlPlaneUnreachable, diag.UserTemporary},
		"it was heard once": {Evidence{Node: &NodeEvidence{Checklist: []diag.CheckPoint{{ID: diag.PointHeartbeat,
			Status: diag.MarkFail}}}},
			diag.ReasonNodeAgentUnreachable, diag.UserTemporary},
	} {
		if got := Classify(c.e); got.Reason != c.reason || got.UserState != c.state ||
			(got.UserState == diag.UserUnknown && got.UserText != "") {
			t.Errorf("%s: %s, %s %q", name, got.Reason, got.UserState, got.UserText)
		}
	}
}

// TestListenerThatNeverAsked: a denial by a listener that never requested a certificate is drift of the profile, never
// revocation.
func TestListenerThatNeverAsked(t *testing.T) {
	no, yes := false, true
	for _, code := range []string{"revoked", "fenced", "retired", ""} {
		if c := Classify(Evidence{
			Denials: []Denial{{Source: "task wait", Code: code, Asked: &no}},
		}); c.Reason != diag.ReasonEndpointProfileDrift {
			t.Errorf("%q, never asked: %s", code, c.Reason)
		}
		want := diag.ReasonIdentityRevokedOrFenced
		if code == "" {
			want = diag.ReasonIdentityRejectedRecoverable
		}
		if c := Classify(Evidence{Denials: []Denial{{Source: "task wait", Code: code, Asked: &yes}}}); c.Reason != want {
			t.Errorf("%q, asked: %s", code, c.Reason)
		}
	}
	// An agent that such a listener denies knows this, and records nothing about its identity.
	wrote := []*diag.RecordEntry{
		{Seq: 1, BootID: "b", Reason: diag.RecEndpointProfileDrift, About: "task_wait", Status: 403,
			Failure: diag.MTLSNotRequested},
	}
	if c := Classify(Evidence{Record: wrote}); c.Reason != diag.ReasonEndpointProfileDrift {
		t.Errorf("record, never asked: %s", c.Reason)
	}
}

// TestCertRecoversOnlyWithACurrentToken: unknown is not current.
func TestCertRecoversOnlyWithACurrentToken(t *testing.T) {
	expired := []Probed{
		{Hop: diag.HopNodeRecoveryStatus, Status: diag.StatusFail, Signal: diag.SigAuthFailed, Failure: diag.MTLSCertExpired,
			Text: "dates"},
	}
	for _, c := range []struct {
		token  TokenState
		reason diag.ReasonCode
		state  diag.UserState
	}{
		{TokenCurrent, diag.ReasonCertExpired, diag.UserRecovery},
		{TokenUnknown, diag.ReasonCertExpired, diag.UserOperator},
		{TokenGone, diag.ReasonRecoveryTokenMissing, diag.UserOperator},
	} {
		if got := Classify(Evidence{Probes: expired, Token: c.token}); got.Reason != c.reason || got.State != c.state {
			t.Errorf("token %q: %s %s, want %s %s", c.token, got.Reason, got.State, c.reason, c.state)
		}
	}
}

// TestManagementIsAtMostTemporaryWhileUsersAreServed, except for security and for a clean-up of the allocation itself.
func TestManagementIsAtMostTemporaryWhileUsersAreServed(t *testing.T) {
	green := []Probed{
		{Hop: diag.HopAppRuntimeLiveness, Status: diag.StatusPass},
		{Hop: diag.HopAppUserRoute, Status: diag.StatusPass},
	}
	for _, r := range diag.Reasons() {
		fault := Probed{
			Hop:    diag.HopNodeRecoveryStatus,
			Status: diag.StatusFail,
			Signal: diag.SigAuthFailed,
			Reason: r.Code,
			Text:   "named",
		}
		c := Classify(Evidence{Probes: append(slices.Clone(green), fault), Token: TokenCurrent})
		switch {
		case r.Code == diag.ReasonNone || r.Layer != diag.LayerManagement || r.Code == diag.ReasonAppRuntimeFailed:
		case r.State == diag.UserSecurity && c.UserState != diag.UserSecurity:
			t.Errorf("%s is softened to %s", r.Code, c.UserState)
		case r.State != diag.UserSecurity && r.Code != diag.ReasonReleaseCleanupStuck &&
			diag.Urgency(c.UserState) > diag.Urgency(diag.UserTemporary):
			t.Errorf("%s: users are shown %s while they are served", r.Code, c.UserState)
		case c.State != r.State:
			t.Errorf("%s: state family %s, want %s", r.Code, c.State, r.State)
		}
	}
}

func entry(seq uint64, boot string, r diag.RecordReason, about string) diag.RecordEntry {
	return diag.RecordEntry{Seq: seq, BootID: boot, Reason: r, About: about, At: diag.At(time.Unix(int64(1000+seq), 0))}
}

func touch(seq uint64, boot string) diag.RecordEntry {
	e := entry(seq, boot, diag.RecProcessAlive, "heartbeat")
	e.Decision = DecisionContact
	return e
}

func delivered(seq uint64, boot string) diag.RecordEntry {
	e := entry(seq, boot, diag.RecProcessAlive, "task_result")
	e.Decision = DecisionDelivered
	return e
}

func begun(seq uint64, boot string) diag.RecordEntry {
	e := entry(seq, boot, diag.RecProcessAlive, "agent")
	e.Decision = "start"
	return e
}

// TestStaleRecordDoesNotCount: an entry before the last good contact, of an earlier boot, or before a later entry of
// the same loop is history, and is shown as such.
func TestStaleRecordDoesNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		entries []diag.RecordEntry
		boot    string
		want    diag.ReasonCode
		lost    diag.ReasonCode
	}{
		"now": {[]diag.RecordEntry{entry(1, "b", diag.RecServerTLSUntrusted, "task_wait")}, "",
			diag.ReasonServerTLSUntrusted, ""},
		"contact since": {[]diag.RecordEntry{entry(1, "b", diag.RecServerTLSUntrusted, "task_wait"), touch(2, "b")}, "",
			diag.ReasonNone, diag.ReasonServerTLSUntrusted},
		"earlier boot": {[]diag.RecordEntry{entry(1, "a", diag.RecServerTLSUntrusted, "task_wait")}, "b", diag.ReasonNone,
			diag.ReasonServerTLSUntrusted},
		"later word": {
			[]diag.RecordEntry{entry(1, "b", diag.RecDNSFailed, "task_wait"),
				entry(2, "b", diag.RecServerTLSUntrusted, "task_wait")}, "",
			diag.ReasonServerTLSUntrusted, diag.ReasonControlPlaneUnreachable,
		},
		"start is no contact": {
			[]diag.RecordEntry{entry(1, "b", diag.RecServerTLSUntrusted, "task_wait"),
				entry(2, "b", diag.RecProcessAlive, "agent")}, "",
			diag.ReasonServerTLSUntrusted, "",
		},
		"a start without contacts": {[]diag.RecordEntry{entry(1, "b", diag.RecServerTLSUntrusted, "task_wait"),
			begun(2, "b")}, "",
			diag.ReasonNone, diag.ReasonServerTLSUntrusted},
		"a start among contacts": {
			[]diag.RecordEntry{touch(1, "b"), entry(2, "b", diag.RecServerTLSUntrusted, "task_wait"), begun(3, "b")}, "",
			diag.ReasonServerTLSUntrusted, "",
		},
		"results apart": {[]diag.RecordEntry{entry(1, "b", diag.RecTaskResultPostFailed, "task_result"), touch(2, "b")}, "",
			diag.ReasonTaskResultPostFailed, ""},
		"results, delivered since": {[]diag.RecordEntry{entry(1, "b", diag.RecTaskResultPostFailed, "task_result"),
			delivered(2, "b")},
			"", diag.ReasonNone, diag.ReasonTaskResultPostFailed},
		"delivered before": {[]diag.RecordEntry{delivered(1, "b"),
			entry(2, "b", diag.RecTaskResultPostFailed, "task_result")}, "",
			diag.ReasonTaskResultPostFailed, ""},
		"a new identity": {[]diag.RecordEntry{entry(1, "b", diag.RecClonedIdentity, "heartbeat"),
			entry(2, "b", diag.RecRecoveryEnrolled, "identity")}, "", diag.ReasonNone, diag.ReasonClonedIdentity},
		"a new identity, and then contact": {[]diag.RecordEntry{entry(1, "b", diag.RecClonedIdentity, "heartbeat"),
			entry(2, "b", diag.RecRecoveryEnrolled, "identity"),
			{Seq: 2, BootID: "b", MonoNS: 3e9, Reason: diag.RecProcessAlive, About: "heartbeat", Decision: DecisionContact}}, "",
			diag.ReasonNone, diag.ReasonClonedIdentity},
		"taken back": {[]diag.RecordEntry{entry(1, "b", diag.RecClonedIdentity, "heartbeat"),
			{Seq: 2, BootID: "b", MonoNS: 2e9, Reason: diag.RecClonedIdentity, About: "identity", Decision: "release"}}, "",
			diag.ReasonNone, diag.ReasonClonedIdentity},
		"cloned once more": {[]diag.RecordEntry{{Seq: 1, BootID: "b", Reason: diag.RecClonedIdentity, About: "identity",
			Decision: "release"},
			entry(2, "b", diag.RecClonedIdentity, "heartbeat")}, "", diag.ReasonClonedIdentity, ""},
		"repeated after contact": {[]diag.RecordEntry{
			{Seq: 1, BootID: "b", MonoNS: 30, Count: 2, Reason: diag.RecServerTLSUntrusted, About: "heartbeat"},
			{Seq: 2, BootID: "b", MonoNS: 20, Reason: diag.RecProcessAlive, About: "heartbeat", Decision: DecisionContact},
		}, "", diag.ReasonServerTLSUntrusted, ""},
		"a clone is a clone": {[]diag.RecordEntry{entry(1, "a", diag.RecClonedIdentity, "heartbeat"), touch(2, "b")}, "b",
			diag.ReasonClonedIdentity, ""},
		"fresh cert rejected": {
			[]diag.RecordEntry{entry(1, "b", diag.RecRecoveryEnrolled, "identity"),
				entry(2, "b", diag.RecIdentityRejected, "task_wait")}, "",
			diag.ReasonCertUntrustedByIngress, "",
		},
		"shut down": {[]diag.RecordEntry{entry(1, "b", diag.RecShutdown, "agent")}, "", diag.ReasonAgentDown, ""},
		"shut down, came back": {[]diag.RecordEntry{entry(1, "b", diag.RecShutdown, "agent"),
			entry(2, "b", diag.RecProcessAlive, "agent")},
			"", diag.ReasonNone, ""},
	} {
		got := Classify(Evidence{Record: (&diag.RecordFacts{Entries: c.entries}).InTime(), BootID: c.boot})
		if got.Reason != c.want {
			t.Errorf("%s: %s, want %s", name, got.Reason, c.want)
		}
		if c.lost != "" && !slices.ContainsFunc(got.Losers, func(l diag.Candidate) bool { return l.Reason == c.lost }) {
			t.Errorf("%s: %s is not among the losers %v", name, c.lost, got.Losers)
		}
	}
}

// TestATakenBackNodeIsNotCloned: a node whose last heartbeat was sent in quarantine and accepted is not cloned, unless
// a newer entry in its own record contradicts that.
func TestATakenBackNodeIsNotCloned(t *testing.T) {
	clone := entry(1, "b", diag.RecClonedIdentity, "identity")
	wrote := []*diag.RecordEntry{&clone}
	for name, c := range map[string]struct {
		identity string
		record   []*diag.RecordEntry
		want     diag.ReasonCode
	}{
		"denied":                 {"cloned", nil, diag.ReasonClonedIdentity},
		"nobody says":            {"", nil, diag.ReasonClonedIdentity},
		"accepted":               {"accepted", nil, diag.ReasonNone},
		"accepted, not reported": {"accepted", wrote, diag.ReasonClonedIdentity},
	} {
		k := Classify(Evidence{Node: &NodeEvidence{Posture: "quarantined", Identity: c.identity}, Record: c.record})
		if k.Reason != c.want || (c.want == diag.ReasonNone &&
			(len(k.Losers) != 1 || k.Losers[0].Reason != diag.ReasonClonedIdentity)) {
			t.Errorf("%s: %s, losers %v", name, k.Reason, k.Losers)
		}
	}
}

// TestBudgetsAreTightenedOnly: a profile's own budgets hold where they are tighter.
func TestBudgetsAreTightenedOnly(t *testing.T) {
	e := Evidence{Trust: &TrustEvidence{"aa", "bb"},
		Budgets: map[diag.Severity]Budget{diag.P0: {Detect: time.Hour, Repair: time.Minute}}}
	if c := Classify(e); c.DetectMS != time.Minute.Milliseconds() || c.RepairMS != time.Minute.Milliseconds() {
		t.Error(fmt.Sprint(c.DetectMS, c.RepairMS))
	}
}

// A backlog is a finding only after contact with the node is restored; until then tasks wait because the node is
// silent.
func TestBacklogOfASilentNode(t *testing.T) {
	age, stale := 30*time.Second, 2
	e := Evidence{Node: &NodeEvidence{HeartbeatAge: &age, StaleAfter: 8 * time.Second, StaleTasks: &stale}}
	if got := Classify(e).Reason; got != diag.ReasonNodeAgentUnreachable {
		t.Errorf("silent: got %s", got)
	}
	age = time.Second
	if got := Classify(e).Reason; got != diag.ReasonTaskBacklogStale {
		t.Errorf("heard again: got %s", got)
	}
}

// TestAMissedProbeIsNotCalledExpired: an agent that is stopping answers a status probe with a failure, and its workload
// may have been checked seconds before. The platform reports only when the last probe gave no result.
func TestAMissedProbeIsNotCalledExpired(t *testing.T) {
	now := time.Date(2026, 11, 22, 14, 23, 9, 0, time.UTC)
	c := Classify(Evidence{App: &AppEvidence{State: "active", Status: "running", ObservedAt: now.Add(-2 * time.Second),
		ProbeFailedAt: now.Add(-time.Second)}})
	row, _ := diag.LookupReason(diag.ReasonAppObservationStale)
	text := row.Title.Render(nil) + " " + strings.Join(c.Because, " ")
	if c.Reason != diag.ReasonAppObservationStale || c.NeedsSomebody() ||
		strings.Contains(text, "expired") || strings.Contains(text, "recently") {
		t.Errorf("%s %s: %s", c.Reason, c.UserState, text)
	}
}
