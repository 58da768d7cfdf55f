package diag

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// declared reads the string constants of a named type from this package's source, so that a constant without a row is
// found as well.
func declared(t *testing.T, typeName string) []string {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) == 0 {
				return true
			}
			if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != typeName {
				return true
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				s, _ := strconv.Unquote(lit.Value)
				values = append(values, s)
			}
			return true
		})
	}
	if len(values) == 0 {
		t.Fatalf("no constant of type %s found", typeName)
	}
	return values
}

// sameSet fails if two lists differ as sets, or one has a duplicate.
func sameSet(t *testing.T, what string, consts, rows []string) {
	t.Helper()
	count := map[string]int{}
	for _, c := range consts {
		count[c]++
	}
	for v, n := range count {
		if n > 1 {
			t.Errorf("%s: %q is declared %d times", what, v, n)
		}
	}
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r] {
			t.Errorf("%s: %q has two rows", what, r)
		}
		seen[r] = true
		if count[r] == 0 {
			t.Errorf("%s: row %q has no constant", what, r)
		}
	}
	for v := range count {
		if !seen[v] {
			t.Errorf("%s: constant %q has no row", what, v)
		}
	}
}

func TestEverySignalHasOneRow(t *testing.T) {
	var rows []string
	for _, r := range Signals() {
		rows = append(rows, string(r.Signal))
	}
	sameSet(t, "signal", declared(t, "Signal"), rows)
}

func TestEveryReasonHasOneRow(t *testing.T) {
	var rows []string
	for _, r := range Reasons() {
		rows = append(rows, string(r.Code))
	}
	sameSet(t, "reason", declared(t, "ReasonCode"), rows)
}

func TestEveryFailureIsListedAndSpoken(t *testing.T) {
	var listed []string
	for _, f := range Failures {
		listed = append(listed, string(f))
		if f.Words() == "" {
			t.Errorf("failure %q has no words", f)
		}
	}
	var consts []string
	for _, c := range declared(t, "Failure") {
		if c != "" {
			consts = append(consts, c)
		}
	}
	sameSet(t, "failure", consts, listed)
}

func TestEveryStatusHopIsListed(t *testing.T) {
	var statuses, hops []string
	symbols := map[string]Status{}
	for _, s := range Statuses {
		statuses = append(statuses, string(s))
		if other, twice := symbols[s.Symbol()]; twice || s.Symbol() == " " {
			t.Errorf("status %q has no symbol of its own (%q, %q)", s, s.Symbol(), other)
		}
		symbols[s.Symbol()] = s
	}
	sameSet(t, "status", declared(t, "Status"), statuses)
	for _, h := range HopIDs() {
		hops = append(hops, string(h))
	}
	sameSet(t, "hop", declared(t, "HopID"), hops)
}

var (
	placeholderLike = regexp.MustCompile(`\{[^}]*\}`)
	slotName        = regexp.MustCompile(`^[1-9]$`)
	onlyFlag        = regexp.MustCompile(`--only ([a-z_,]+)$`)
)

func TestSignalRowsAreComplete(t *testing.T) {
	agent := map[string]bool{"": true, AgentStale: true, AgentAuthFailed: true, AgentAPIUnreachable: true,
		AgentTaskResultFailed: true, AgentUnknown: true}
	for _, r := range Signals() {
		if r.Title == "" || len(r.Owners) == 0 || len(r.Recovery) < 2 || len(r.Proof.Hops) == 0 {
			t.Errorf("%s: title, owner, two steps and a proof are needed", r.Signal)
		}
		if _, ok := LookupReason(r.Reason); !ok {
			t.Errorf("%s: reason %q has no row", r.Signal, r.Reason)
		}
		if !agent[r.Dashboard] {
			t.Errorf("%s: %q is no word of node_agent_status that a fault can have", r.Signal, r.Dashboard)
		}
		checkTemplates(t, r)
		checkProof(t, r)
	}
}

func checkTemplates(t *testing.T, r SignalRow) {
	t.Helper()
	templates := []string{r.Proof.Command()}
	for _, s := range r.Recovery {
		templates = append(append(templates, s.Commands...), s.Text)
	}
	for _, step := range templates {
		for _, p := range placeholderLike.FindAllString(step, -1) {
			if name := strings.Trim(p, "{}"); !isPlaceholder(name) && !slotName.MatchString(name) {
				t.Errorf("%s: unknown placeholder %s in %q", r.Signal, p, step)
			}
		}
	}
	for _, c := range slices.Concat(templates[:1], r.commands()) {
		if strings.ContainsAny(c, "`'\"<>|") {
			t.Errorf("%s: %q has a quote or an operator of the shell: values would be quoted inside quotes", r.Signal, c)
		}
	}
}

// commands returns the templates of all commands of a row.
func (r *SignalRow) commands() (all []string) {
	for _, s := range r.Recovery {
		all = append(all, s.Commands...)
	}
	return all
}

func checkProof(t *testing.T, r SignalRow) {
	t.Helper()
	m := onlyFlag.FindStringSubmatch(r.Proof.Command())
	if m == nil {
		t.Errorf("%s: proof %q does not end with --only HOP", r.Signal, r.Proof.Command())
		return
	}
	known := map[HopID]bool{}
	for _, h := range HopIDs() {
		known[h] = true
	}
	for _, h := range strings.Split(m[1], ",") {
		if !known[HopID(h)] {
			t.Errorf("%s: proof names the unknown hop %q", r.Signal, h)
		}
	}
}

func TestReasonRowsAreComplete(t *testing.T) {
	states := map[UserState]bool{UserNormal: true, UserTemporary: true, UserRecovery: true, UserOperator: true,
		UserSecurity: true}
	rank := map[ReasonCode]int{}
	for i, r := range Reasons() {
		rank[r.Code] = i
	}
	for _, r := range Reasons() {
		if r.Title.Render(nil) == "" || len(r.Owners) == 0 || r.NextAction.Render(nil) == "" || r.Layer == "" ||
			!states[r.State] {
			t.Errorf("%s: incomplete row", r.Code)
		}
		for _, h := range r.Hides {
			if i, ok := rank[h]; !ok || i <= rank[r.Code] {
				t.Errorf("%s hides %s, which is unknown or more pressing", r.Code, h)
			}
		}
	}
}

// TestReasonsOfTheCatalogue pins the drift model's decisions: severity, state family and detection budget.
func TestReasonsOfTheCatalogue(t *testing.T) {
	for _, want := range []struct {
		code     ReasonCode
		severity Severity
		state    UserState
		detect   time.Duration
	}{
		{"cloned_identity_detected", P0, UserSecurity, time.Minute},
		{"identity_revoked_or_fenced", P0, UserOperator, time.Minute},
		{"cert_untrusted_by_ingress", P0, UserOperator, time.Minute},
		{"endpoint_profile_drift", P1, UserOperator, 5 * time.Minute},
		{"recovery_token_missing", P1, UserOperator, 5 * time.Minute},
		{"cert_expired", P1, UserRecovery, 5 * time.Minute},
		{"task_backlog_stale", P2, UserTemporary, 5 * time.Minute},
		{"agent_down", P2, UserTemporary, 5 * time.Minute},
		{"node_agent_unreachable", P1, UserTemporary, 5 * time.Minute},
		{"identity_rejected_recoverable", P1, UserRecovery, 5 * time.Minute},
		{"recovery_enrollment_blocked", P1, UserOperator, 5 * time.Minute},
		{"server_tls_untrusted", P1, UserOperator, 5 * time.Minute},
		{"control_plane_unreachable", P1, UserTemporary, time.Minute},
		{"disk_full", P1, UserOperator, 5 * time.Minute},
		{"clock_skew", P1, UserOperator, 5 * time.Minute},
		{"edge_rate_limited", P2, UserTemporary, 5 * time.Minute},
		{"task_result_post_failed", P2, UserTemporary, 5 * time.Minute},
		{"dispatched_result_lost", P2, UserTemporary, 30 * time.Minute},
		{"agent_version_drift", P2, UserTemporary, 30 * time.Minute},
		{"ip_route_drift", P2, UserTemporary, 30 * time.Minute},
		{"ops_access_unhealthy", P2, UserNormal, 30 * time.Minute},
		{"app_observation_stale", P2, UserNormal, 5 * time.Minute},
		{"app_runtime_failed", P1, UserTemporary, 5 * time.Minute},
		{"app_route_failed", P1, UserTemporary, 5 * time.Minute},
		{"app_credential_failing", P1, UserOperator, 5 * time.Minute},
		{"terminal_gateway_down", P1, UserTemporary, 5 * time.Minute},
		{"terminal_endpoint_drift", P1, UserOperator, 30 * time.Second},
		{"release_failed_cleanup_stuck", P1, UserOperator, 5 * time.Minute},
		{"none", "", UserNormal, 0},
	} {
		r, ok := LookupReason(want.code)
		if !ok || r.Severity != want.severity || r.State != want.state || r.Detect != want.detect {
			t.Errorf("%s: got %v %s %s %v", want.code, ok, r.Severity, r.State, r.Detect)
		}
	}
}

// TestUserActionsOfTheDriftModel pins the rows of its table "User-Facing Recovery States": the actions of a user
// interface for each reason, and for no other.
func TestUserActionsOfTheDriftModel(t *testing.T) {
	model := map[ReasonCode][]UserAction{
		ReasonAgentDown: {KeepAllocationVisible}, // "keep allocation/app visible"
		// "show reconnecting/recovering while automatic token is valid"
		ReasonCertExpired:             nil,
		ReasonCertUntrustedByIngress:  {SuppressRetry},         // "suppress user retry loops"
		ReasonEndpointProfileDrift:    {LinkEvidence},          // "link operator evidence"
		ReasonRecoveryTokenMissing:    nil,                     // "show support/admin action required"
		ReasonTaskBacklogStale:        {KeepAllocationVisible}, // "show operation history stale, not workload failed"
		ReasonIdentityRevokedOrFenced: {HideSelfService},       // "hide self-service recovery"
		ReasonClonedIdentity:          {Page},                  // "page security/operator team"
	}
	used := map[UserAction]bool{}
	for _, r := range Reasons() {
		if !slices.Equal(r.UserActions, model[r.Code]) {
			t.Errorf("%s: %v, the drift model has %v", r.Code, r.UserActions, model[r.Code])
		}
		for _, a := range r.UserActions {
			used[a] = true
		}
	}
	if len(used) != len(UserActions) {
		t.Errorf("%d of %d user actions are used", len(used), len(UserActions))
	}
}

func TestReasonForRefinesOnlyARejectedIdentity(t *testing.T) {
	for _, c := range []struct {
		sig  Signal
		f    Failure
		want ReasonCode
	}{
		{SigAuthFailed, MTLSCertExpired, ReasonCertExpired},
		{SigAuthFailed, MTLSNotRequested, ReasonEndpointProfileDrift},
		{SigAuthFailed, HTTPStatus, ReasonIdentityRejectedRecoverable},
		{SigNodeStreamMTLS, MTLSCertExpired, ReasonTerminalEndpointDrift},
		{SigProcessDown, UnitInactive, ReasonAgentDown},
		{"no_such_signal", OK, ReasonNone},
	} {
		if got := ReasonFor(c.sig, c.f); got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.sig, c.f, got, c.want)
		}
	}
}

func TestEveryResourceIsListed(t *testing.T) {
	var listed []string
	for _, r := range Resources {
		listed = append(listed, string(r))
		if r.Words() == "" || strings.Contains(r.Words(), "_") {
			t.Errorf("resource %q reads %q", r, r.Words())
		}
	}
	sameSet(t, "resource", declared(t, "Resource"), listed)
}

// TestLocalWords: a failure that the machine itself caused never counts as silence of the target.
func TestLocalWords(t *testing.T) {
	for _, f := range Failures {
		if f.Local() && (f.Silent() || f.Operator()) {
			t.Errorf("%s is both", f)
		}
	}
}
