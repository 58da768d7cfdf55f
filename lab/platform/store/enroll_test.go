package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

// enrolled is a store with the nodes n1 and n2, and a token for n1 that is valid for an hour.
type enrolled struct {
	*store.Store
	t *testing.T
	n int // certificates issued
}

func forEnrollment(t *testing.T) *enrolled {
	t.Helper()
	s, err := store.Open(t.Context(), store.Memory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	e := &enrolled{Store: s, t: t}
	for _, id := range []string{"n1", "n2"} {
		e.must(s.SeedNode(t.Context(), store.Node{ID: id, Status: store.NodeActive, CreatedAt: t0}))
	}
	e.must(s.AddToken(t.Context(), store.Token{NodeID: "n1", Digest: "token", Profile: "prod", IssuedAt: t0,
		ExpiresAt: t0.Add(time.Hour)}))
	return e
}

func (e *enrolled) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// enroll exchanges the token for a certificate. change changes an enrollment that would succeed.
func (e *enrolled) enroll(change func(*store.Enrollment)) (store.Cert, error) {
	of := store.Enrollment{NodeID: "n1", InstanceID: "host", Remote: "10.0.0.1", Profile: "prod", TokenDigest: "token",
		KeyDigest: "key", At: t0.Add(time.Minute), Retry: 10 * time.Minute, Fresh: time.Minute}
	change(&of)
	return e.Enroll(e.t.Context(), of, func(generation int64) (store.Cert, error) {
		e.n++
		return store.Cert{Serial: fmt.Sprint("s", e.n), NodeID: of.NodeID, Generation: generation}, nil
	})
}

func (e *enrolled) decide(action, host string, renew bool) error {
	_, err := e.Decide(e.t.Context(), store.Decision{NodeID: "n1", Action: action, InstanceID: host, NewIdentity: renew,
		At: t0.Add(30 * time.Second)})
	return err
}

func as(change ...func(*store.Enrollment)) func(*store.Enrollment) {
	return func(e *store.Enrollment) {
		for _, c := range change {
			c(e)
		}
	}
}

func key(k string) func(*store.Enrollment)   { return func(e *store.Enrollment) { e.KeyDigest = k } }
func host(id string) func(*store.Enrollment) { return func(e *store.Enrollment) { e.InstanceID = id } }
func after(d time.Duration) func(*store.Enrollment) {
	return func(e *store.Enrollment) { e.At = t0.Add(d) }
}

// TestEnroll: a token is good for one key of one node, of its profile and within its time, on a host that is not
// fenced, not another node, and not beside another host that is alive. Whatever is refused consumes nothing.
func TestEnroll(t *testing.T) {
	used := func(e *enrolled) {
		_, err := e.enroll(as())
		e.must(err)
	}
	for name, tc := range map[string]struct {
		before func(e *enrolled)
		change func(*store.Enrollment)
		want   error
	}{
		"as it should be":              {nil, as(), nil},
		"an unknown token":             {nil, func(e *store.Enrollment) { e.TokenDigest = "other" }, store.ErrTokenUnknown},
		"another node's token":         {nil, func(e *store.Enrollment) { e.NodeID = "n2" }, store.ErrTokenOtherNode},
		"at its last moment":           {nil, after(time.Hour - time.Millisecond), nil},
		"at its end":                   {nil, after(time.Hour), store.ErrTokenExpired},
		"another profile":              {nil, func(e *store.Enrollment) { e.Profile = "lab" }, store.ErrProfile},
		"no profile":                   {nil, func(e *store.Enrollment) { e.Profile = "" }, nil},
		"the node names another":       {nil, func(e *store.Enrollment) { e.NodeProfile = "lab" }, store.ErrProfile},
		"the node names the same":      {nil, func(e *store.Enrollment) { e.NodeProfile = "prod" }, nil},
		"used by the same key":         {used, as(), nil},
		"used by another key":          {used, key("other"), store.ErrTokenConsumed},
		"the last moment of its retry": {used, after(11 * time.Minute), nil},
		"after its retry":              {used, after(11*time.Minute + time.Millisecond), store.ErrTokenConsumed},
		"a retry prolongs no retry": {func(e *enrolled) {
			used(e)
			_, err := e.enroll(after(8 * time.Minute))
			e.must(err)
		}, after(12 * time.Minute), store.ErrTokenConsumed},
		"revoked":   {func(e *enrolled) { e.must(e.decide(store.Revoke, "", false)) }, as(), store.ErrNodeDenied},
		"retired":   {func(e *enrolled) { e.must(e.decide(store.Retire, "", false)) }, as(), store.ErrNodeDenied},
		"of a copy": {func(e *enrolled) { e.must(e.decide(store.Reactivate, "", true)) }, as(), store.ErrTokenExpired},
		"fenced": {func(e *enrolled) {
			used(e)
			e.must(e.decide(store.Fence, "host", false))
		}, as(), store.ErrFenced},
		"another host than the fenced one": {func(e *enrolled) {
			used(e)
			e.must(e.decide(store.Fence, "host", false))
		}, as(host("other"), func(e *store.Enrollment) { e.Remote = "10.0.0.2" }), nil},
		"fenced, and reactivated": {func(e *enrolled) {
			used(e)
			e.must(e.decide(store.Fence, "host", false))
			e.must(e.decide(store.Reactivate, "host", false))
		}, as(), nil},
		"another host is alive": {func(e *enrolled) {
			heartbeat(e.t, e.Store, "other", t0.Add(time.Millisecond))
		}, as(), store.ErrDoubt},
		"the same host is alive": {func(e *enrolled) { heartbeat(e.t, e.Store, "host", t0.Add(time.Second)) }, as(), nil},
		"another host was alive": {func(e *enrolled) { heartbeat(e.t, e.Store, "other", t0) }, as(), nil},
		"a host without a name": {func(e *enrolled) { heartbeat(e.t, e.Store, "other", t0.Add(time.Second)) }, host(""),
			nil},
		"another host, before the operator decided": {func(e *enrolled) {
			heartbeat(e.t, e.Store, "other", t0.Add(30*time.Second))
			e.must(e.decide(store.Revoke, "", false))
			e.must(e.decide(store.Reactivate, "", false))
			e.must(e.AddToken(e.t.Context(), store.Token{NodeID: "n1", Digest: "new", IssuedAt: t0,
				ExpiresAt: t0.Add(time.Hour)}))
		}, func(e *store.Enrollment) { e.TokenDigest = "new" }, nil},
		"the host is another node": {func(e *enrolled) {
			_, err := e.enroll(as())
			e.must(err)
			heartbeat(e.t, e.Store, "host", t0.Add(time.Minute))
			e.must(e.AddToken(e.t.Context(), store.Token{NodeID: "n2", Digest: "new", IssuedAt: t0,
				ExpiresAt: t0.Add(time.Hour)}))
		}, func(e *store.Enrollment) { e.NodeID, e.TokenDigest = "n2", "new" }, store.ErrHostBound},
		"the host was a node that is retired": {func(e *enrolled) {
			heartbeat(e.t, e.Store, "host", t0.Add(time.Second))
			e.must(e.decide(store.Retire, "", false))
			e.must(e.AddToken(e.t.Context(), store.Token{NodeID: "n2", Digest: "new", IssuedAt: t0,
				ExpiresAt: t0.Add(time.Hour)}))
		}, func(e *store.Enrollment) { e.NodeID, e.TokenDigest = "n2", "new" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := forEnrollment(t)
			if tc.before != nil {
				tc.before(e)
			}
			issued := e.n
			if _, err := e.enroll(tc.change); !errors.Is(err, tc.want) {
				t.Fatalf("%v, want %v", err, tc.want)
			}
			if (e.n > issued) != (tc.want == nil) {
				t.Errorf("%d certificates were issued, %d before", e.n, issued)
			}
		})
	}
}

// TestTokensThatCanBeUsed: a used or expired token is none; an operator's decision ends those that are not used.
func TestTokensThatCanBeUsed(t *testing.T) {
	current := func(e *enrolled, node string, at time.Duration) bool {
		has, err := e.CurrentToken(t.Context(), node, t0.Add(at))
		e.must(err)
		return has
	}
	e := forEnrollment(t)
	if !current(e, "n1", time.Hour-time.Millisecond) || current(e, "n1", time.Hour) || current(e, "n2", 0) {
		t.Error("the token of n1 is valid for one hour, and of n1 only")
	}
	if _, err := e.enroll(as()); err != nil || current(e, "n1", 2*time.Minute) {
		t.Errorf("a token is current after its use: %v", err)
	}
	for _, action := range []string{store.Fence, store.Revoke, store.Retire} {
		e := forEnrollment(t)
		if e.must(e.decide(action, "", false)); current(e, "n1", time.Minute) {
			t.Errorf("%s leaves a token", action)
		}
	}
}

// TestDecisions: which decision of an operator an identity allows, and which identity the node has after it.
func TestDecisions(t *testing.T) {
	for name, tc := range map[string]struct {
		before, action, host string
		renew                bool
		want                 error
		identity             string
	}{
		"fence":                   {"", store.Fence, "", false, nil, wire.DenyFenced},
		"revoke":                  {"", store.Revoke, "", false, nil, wire.DenyRevoked},
		"retire":                  {"", store.Retire, "", false, nil, wire.DenyRetired},
		"reactivate":              {store.Fence, store.Reactivate, "", false, nil, ""},
		"reactivate for nothing":  {"", store.Reactivate, "", false, store.ErrStanding, ""},
		"a new identity":          {"", store.Reactivate, "", true, nil, ""},
		"fence a host":            {"", store.Fence, "host", false, nil, ""},
		"fence an unknown host":   {"", store.Fence, "other", false, store.ErrInstance, ""},
		"reactivate a host":       {"", store.Reactivate, "host", false, nil, ""},
		"a host of a fenced node": {store.Fence, store.Reactivate, "host", false, nil, wire.DenyFenced},
	} {
		e := forEnrollment(t)
		heartbeat(t, e.Store, "host", t0)
		if tc.before != "" {
			e.must(e.decide(tc.before, "", false))
		}
		if err := e.decide(tc.action, tc.host, tc.renew); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
		n, err := e.Node(t.Context(), "n1")
		if e.must(err); n.Identity != tc.identity {
			t.Errorf("%s: the node is %q, want %q", name, n.Identity, tc.identity)
		}
		out, err := e.Fenced(t.Context(), "n1", store.Source{InstanceID: "host"})
		if e.must(err); out != (name == "fence a host") || (n.InstanceID == "") != out {
			t.Errorf("%s: the host is fenced: %t, and the node runs on %q", name, out, n.InstanceID)
		}
	}
}

// TestOtherProfile: profiles differ only if both are known.
func TestOtherProfile(t *testing.T) {
	for pair, want := range map[[2]string]bool{{"a", "a"}: false, {"a", "b"}: true, {"a", ""}: false, {"", "b"}: false,
		{"", ""}: false} {
		if got := store.OtherProfile(pair[0], pair[1]); got != want {
			t.Errorf("%q: %t", pair, got)
		}
	}
}

// TestPlaces: a slot is free only if its allocation is released for good, and was cleaned up.
func TestPlaces(t *testing.T) {
	for _, state := range []string{store.StateRequested, store.StateActive, store.StateReleasing, store.StateReleased,
		store.StateReleaseFailed} {
		for _, uncleaned := range []bool{false, true} {
			for _, until := range []time.Time{{}, t0} {
				want := state
				if state == store.StateReleased {
					switch {
					case uncleaned:
						want = store.StateReleaseFailed
					case !until.IsZero():
						want = store.StateActive
					}
				}
				a := store.Allocation{State: state, Uncleaned: uncleaned, ReleaseUntil: until}
				if got := a.Place(); got != want {
					t.Errorf("%s, uncleaned %t, until %v: %s, want %s", state, uncleaned, until, got, want)
				}
			}
		}
	}
}

// TestCredentialOfApplication: of several credentials, the one that has failed the longest counts; if none has
// failed, the last reported.
func TestCredentialOfApplication(t *testing.T) {
	of := func(id string, healthy bool, first, last int) store.Credential {
		return store.Credential{ID: id, Healthy: healthy, FirstSeenAt: t0.Add(time.Duration(first)),
			LastSeenAt: t0.Add(time.Duration(last))}
	}
	for want, list := range map[string][]store.Credential{
		"":        nil,
		"one":     {of("one", true, 1, 1)},
		"newest":  {of("a", true, 1, 2), of("newest", true, 1, 3), of("b", true, 0, 1)},
		"failing": {of("a", true, 1, 9), of("failing", false, 5, 6), of("b", true, 0, 10)},
		"first":   {of("first", false, 1, 1)},
		"longest": {of("a", false, 3, 9), of("longest", false, 2, 4), of("b", false, 5, 6), of("c", true, 0, 10)},
		"earlier": {of("earlier", false, 2, 3), of("later", false, 3, 9), of("works", true, 1, 9)},
	} {
		got := ""
		if c := (store.Allocation{Credentials: list}).Credential(); c != nil {
			got = c.ID
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestReportsOfCredentials: a report counts on while the state is the same; one that is quiet for long is forgotten.
func TestReportsOfCredentials(t *testing.T) {
	e := forEnrollment(t)
	e.must(e.SeedAllocation(t.Context(), store.Allocation{ID: "a1", NodeID: "n1", State: store.StateActive,
		UpdatedAt: t0}))
	for i, step := range []struct {
		id      string
		healthy bool
		at      time.Duration
		want    string // each credential: how often, and since when
	}{
		{"x", true, 0, "x 1 0s"}, {"x", true, time.Second, "x 2 0s"}, {"x", false, 2 * time.Second, "x 1 2s"},
		{"y", true, 3 * time.Second, "y 1 3s, x 1 2s"}, {"x", false, 4 * time.Second, "x 2 2s, y 1 3s"},
		{"x", false, 3*time.Second + store.QuietAfter - time.Millisecond, "x 3 2s, y 1 3s"},
		{"x", false, 3*time.Second + store.QuietAfter, "x 4 2s"},
	} {
		a, err := e.ReportCredential(t.Context(), "a1", "c", store.Credential{ID: step.id, Healthy: step.healthy,
			LastSeenAt: t0.Add(step.at)})
		e.must(err)
		var got []string
		for _, c := range a.Credentials {
			got = append(got, fmt.Sprint(c.ID, " ", c.Count, " ", c.FirstSeenAt.Sub(t0)))
		}
		if all := strings.Join(got, ", "); all != step.want {
			t.Errorf("report %d: %s, want %s", i, all, step.want)
		}
	}
	reported, err := e.EvidenceBy(t.Context(), "c", "")
	if e.must(err); len(reported) != 3 { // x works, x fails, y works
		t.Errorf("%d changes, want 3", len(reported))
	}
	for i := range 17 {
		_, err := e.ReportCredential(t.Context(), "a1", "many", store.Credential{ID: fmt.Sprint("c", i),
			LastSeenAt: t0.Add(time.Hour)})
		e.must(err)
	}
	found, err := e.AllocationsOn(t.Context(), "n1")
	if e.must(err); len(found) != 1 || len(found[0].Credentials) != 16 || found[0].Credentials[0].ID != "c16" {
		t.Errorf("17 credentials: %+v", found)
	}
}
