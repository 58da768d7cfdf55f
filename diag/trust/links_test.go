package trust

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// handshake is a fact of a handshake whose leaf has that fingerprint, verified with the bundle source.
func handshake(id, fingerprint, source string, failure diag.Failure) diag.Fact {
	return diag.Fact{ID: id, Target: "https://api.test", Failure: failure, TLS: &diag.TLSFacts{TrustSource: source,
		Verified: failure == "", ServerName: "api.test", Chain: []diag.CertInfo{{Fingerprint: fingerprint, Issuer: "CN=ca",
			NotAfter: diag.At(time.Now().Add(time.Hour))}}}}
}

// bundleFact is a fact of a bundle's file.
func bundleFact(id, path string, fingerprints ...string) diag.Fact {
	f := diag.Fact{ID: id, Request: diag.Request{Cert: path}, Cert: &diag.CertFacts{}}
	for i, fp := range fingerprints {
		c := diag.CertInfo{Fingerprint: fp, Subject: "CN=" + fp[:1]}
		if i == 0 {
			f.Cert.Leaf = c
		} else {
			f.Cert.Chain = append(f.Cert.Chain, c)
		}
	}
	return f
}

const nodeBundle = "/etc/gpuaas/ca-bundle.crt"

// linkRow is one state of a link.
type linkRow struct {
	facts  []diag.Fact
	expect map[string]string // of the profile
	want   Status
	cause  Cause
	text   string
}

func linksAre(t *testing.T, judge func(*inputs) Link, rows map[string]linkRow) {
	t.Helper()
	for name, r := range rows {
		s := newScene(diag.Subject{NodeID: "n1", Expected: r.expect}, r.facts)
		if l := judge(s); l.Status != r.want || l.Cause != r.cause || !strings.Contains(l.Text, r.text) {
			t.Errorf("%s: %s %q: %s; want %s %q: %s", name, l.Status, l.Cause, l.Text, r.want, r.cause, r.text)
		}
	}
}

// TestBundleLinks: whether a chain leads to a bundle of the node, and what the bundle holds instead.
func TestBundleLinks(t *testing.T) {
	file := func(fps ...string) diag.Fact { return bundleFact(factBundle, nodeBundle, fps...) }
	broken := diag.Fact{ID: factBundle, Failure: diag.FileUnparseable, Request: diag.Request{Cert: nodeBundle}}
	gone := diag.Fact{ID: factBundle, Failure: diag.FileMissing, Request: diag.Request{Cert: nodeBundle}}
	lost := diag.Fact{ID: factIdentity, Failure: diag.FileMissing}
	old := handshake(factNodeAPI, fpA, nodeBundle, diag.TLSExpired)
	old.TLS.Misdated = &diag.CertInfo{Subject: "CN=old root", Fingerprint: fpB,
		NotAfter: diag.At(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))}
	linksAre(t, (*inputs).bundleLink, map[string]linkRow{
		"its root has ended": {[]diag.Fact{old, file(fpB)}, nil, Fail, CauseBundle,
			"old root in " + nodeBundle + " is valid from"},
		"nothing": {nil, nil, Unknown, "", "saw no certificate"},
		"verified": {[]diag.Fact{handshake(factNodeAPI, fpA, nodeBundle, ""), file(fpB)}, nil, Pass, "",
			"ca is in"},
		"verified, its dates are past": {[]diag.Fact{handshake(factNodeAPI, fpA, nodeBundle, diag.TLSExpired)}, nil, Pass, "",
			"ca is in"},
		"verified, it begins later": {[]diag.Fact{handshake(factNodeAPI, fpA, nodeBundle, diag.TLSNotYetValid)}, nil, Pass,
			"", "ca is in"},
		"verified, of another name": {[]diag.Fact{handshake(factNodeAPI, fpA, nodeBundle, diag.TLSNameMismatch)}, nil,
			Pass, "", "ca is in"},
		"by another bundle": {[]diag.Fact{handshake(factNodeAPI, fpA, "/x", ""), file(fpB)}, nil, Unknown, "",
			"not judged by"},
		"not verified": {[]diag.Fact{handshake(factNodeAPI, fpA, nodeBundle, diag.TLSUnknownCA), file(fpB, fpC, fpA)}, nil,
			Fail,
			CauseEdge, "(it holds b bbbb"},
		"not verified, more than three": {[]diag.Fact{handshake(factNodeAPI, fpA, nodeBundle, diag.TLSUnknownCA),
			file(fpB, fpC, fpA, fpA)}, nil, Fail, CauseEdge, ", ...)"},
		"a broken bundle":              {[]diag.Fact{broken}, nil, Fail, CauseBundle, "file_unparseable"},
		"no bundle":                    {[]diag.Fact{gone}, nil, Fail, CauseBundle, "file_missing"},
		"no agent":                     {[]diag.Fact{gone, lost}, nil, Unknown, "", "no agent is installed"},
		"a broken bundle, no identity": {[]diag.Fact{broken, lost}, nil, Fail, CauseBundle, "file_unparseable"},
	})
	for n, dots := range map[int]bool{3: false, 4: true} {
		r := roots{certs: slices.Repeat([]diag.CertInfo{{Subject: "CN=x"}}, n)}
		if got := (&inputs{}).holding(r); strings.Contains(got, "...") != dots || strings.Count(got, "x") != 3 {
			t.Errorf("of %d: %s", n, got)
		}
	}
	if got := (&inputs{}).holding(roots{}); got != "" {
		t.Errorf("of none: %q", got)
	}
}

// TestNodeCALink: the node's bundle needs every certificate of the profile's.
func TestNodeCALink(t *testing.T) {
	profile := func(fps ...string) diag.Fact { return bundleFact(factProfileBundle, "ca.pem", fps...) }
	file := func(fps ...string) diag.Fact { return bundleFact(factBundle, nodeBundle, fps...) }
	linksAre(t, (*inputs).nodeCALink, map[string]linkRow{
		"none":             {nil, nil, NotSet, "", "no trust.node_ca"},
		"pinned, not read": {nil, map[string]string{"node_ca": fpA}, Unknown, "", "was not read"},
		"not readable": {[]diag.Fact{{ID: factProfileBundle, Failure: diag.FileMissing}}, nil, Unknown, "",
			"was not read: file_missing"},
		"no node's bundle": {[]diag.Fact{profile(fpA)}, nil, Unknown, "", "the node's bundle was not read"},
		"the same":         {[]diag.Fact{profile(fpA), file(fpA)}, nil, Pass, "", "all 1 of the profile are in it"},
		"more":             {[]diag.Fact{profile(fpA), file(fpB, fpA)}, nil, Pass, "", "and 1 more that"},
		"lacks one":        {[]diag.Fact{profile(fpA, fpB), file(fpA)}, nil, Fail, CauseBundle, "lacks b bbbb"},
		"lacks two":        {[]diag.Fact{profile(fpA, fpB), file(fpC)}, nil, Fail, CauseBundle, "lacks a aaaa"},
		"too many to know": {[]diag.Fact{profile(fpA), file(slices.Repeat([]string{fpB}, 16)...)}, nil, Unknown, "",
			"too many"},
	})
}

// TestRecoveryLink: the bundle with which a node recovers.
func TestRecoveryLink(t *testing.T) {
	env := func(path string) diag.Fact {
		return diag.Fact{ID: factEnv, Env: &diag.EnvFacts{
			Values: map[string]string{diag.DefaultAgentNames().RecoveryBundle: path, "x": "y"}}}
	}
	api := handshake(factNodeAPI, fpA, nodeBundle, diag.TLSUnknownCA)
	linksAre(t, (*inputs).recoveryLink, map[string]linkRow{
		"not read": {nil, nil, Unknown, "", "was not read"},
		"not set":  {[]diag.Fact{env("")}, nil, NotSet, "", "is not set"},
		"verified": {[]diag.Fact{env("/r"), handshake(factRecoveryAPI, fpA, "/r", "")}, nil, Pass, "", "is in /r"},
		"not verified": {[]diag.Fact{env("/r"), handshake(factRecoveryAPI, fpA, "/r", diag.TLSUnknownCA)}, nil, Fail,
			CauseRecovery, "not in /r"},
		"not verified, the edge is new": {[]diag.Fact{env("/r"), handshake(factRecoveryAPI, fpA, "/r", diag.TLSUnknownCA),
			api}, nil,
			Fail, CauseEdge, "not in /r"},
		"verified, the edge is new": {[]diag.Fact{env("/r"), handshake(factRecoveryAPI, fpA, "/r", ""), api}, nil, Pass, "",
			"is in /r"},
		"the runtime's own": {[]diag.Fact{env(nodeBundle), handshake(factRecoveryAPI, fpA, nodeBundle, "")}, nil, Pass, "",
			"both go stale together"},
	})
}

// TestEndpointLink: which API the agent uses.
func TestEndpointLink(t *testing.T) {
	env := func(url string) diag.Fact {
		return diag.Fact{ID: factEnv, Env: &diag.EnvFacts{
			Values: map[string]string{diag.DefaultAgentNames().API: url, "x": "y"}}}
	}
	public := handshake(factNodeAPI, fpA, nodeBundle, "")
	public.TLS.CertRequested = no
	asks := handshake(factNodeAPI, fpA, nodeBundle, "")
	asks.TLS.CertRequested = yes
	want := map[string]string{"node_runtime_api_url": "https://api.test"}
	linksAre(t, (*inputs).endpointLink, map[string]linkRow{
		"no profile": {[]diag.Fact{env("https://x.test"), public}, nil, NotSet, "", "gives no"},
		"not known":  {nil, want, Unknown, "", "is not known"},
		"the same":   {[]diag.Fact{env("https://API.test:443/")}, want, Pass, "", ""},
		"another": {[]diag.Fact{env("https://x.test"), asks}, want, Fail, CauseEndpoint,
			"the agent uses https://x.test, the profile"},
		"a public edge":           {[]diag.Fact{env("https://x.test"), public}, want, Fail, CauseEndpoint, "a public edge"},
		"the same, asks for none": {[]diag.Fact{env("https://api.test"), public}, want, Pass, "", ""},
		"by the profile's fact": {[]diag.Fact{{ID: factEnv, Env: &diag.EnvFacts{}}, {ID: factProfile,
			Env: &diag.EnvFacts{Values: map[string]string{diag.DefaultAgentNames().API: "https://x.test"}}}},
			want, Fail, CauseEndpoint, "x.test"},
		"a fact without variables": {[]diag.Fact{answered(factEnv, 200, "", nil)}, want, Unknown, "", "is not known"},
	})
}

// TestLeafLinks: the node API's leaf, by the platform's word and by the pin.
func TestLeafLinks(t *testing.T) {
	seen := handshake(factNodeAPI, fpA, nodeBundle, "")
	says := func(fp string) diag.Fact {
		return answered(FactTrustPage, 200, "", map[string]string{"trust.node_api_server": fp})
	}
	pin := func(fp string) map[string]string { return map[string]string{"node_api_server_fingerprint": fp} }
	linksAre(t, (*inputs).platformLink, map[string]linkRow{
		"not said": {[]diag.Fact{seen}, nil, Unknown, "", "does not say"}, "not seen": {[]diag.Fact{says(fpA)}, nil, Unknown,
			"", "not seen"},
		"the same": {[]diag.Fact{seen, says(fpA)}, nil, Pass, "", ""}, "another": {[]diag.Fact{seen, says(fpB)}, nil, Fail,
			CauseEdge, ""},
	})
	linksAre(t, (*inputs).pinLeafLink, map[string]linkRow{
		"no pin": {[]diag.Fact{seen}, nil, NotSet, "", ""}, "not seen": {nil, pin(fpA), Unknown, "", "not seen"},
		"it holds": {[]diag.Fact{seen}, pin(fpA), Pass, "", ""}, "it is old": {[]diag.Fact{seen}, pin(fpB), Fail,
			CauseEdgePin, ""},
		"the edge changed": {[]diag.Fact{seen, says(fpB)}, pin(fpC), Fail, CauseEdge, ""},
		"a broken bundle": {[]diag.Fact{seen, {ID: factBundle, Failure: diag.FileUnparseable}}, pin(fpC), Fail, CauseEdgePin,
			""},
	})
	other := handshake(factOperatorAPI, fpB, "inline", "")
	elsewhere := other
	elsewhere.Target = "https://other.test"
	same := handshake(factOperatorAPI, fpA, "inline", "")
	linksAre(t, (*inputs).sameLeafLink, map[string]linkRow{
		"not by the node": {[]diag.Fact{same}, nil, Unknown, "", "the node saw"}, "not by the operator": {[]diag.Fact{seen},
			nil, Unknown, "", "the operator saw"},
		"the same": {[]diag.Fact{seen, same}, nil, Pass, "", ""}, "two listeners": {[]diag.Fact{seen, other}, nil, Fail,
			CauseEnvironment, ""},
		"two endpoints": {[]diag.Fact{seen, elsewhere}, nil, Fail, CauseEndpoint, ""},
	})
}

// TestStreamLink: the terminal listener's answer. A node that the ingress refuses as well is refused for that cause.
func TestStreamLink(t *testing.T) {
	stream := func(status int, failure diag.Failure, code string) diag.Fact {
		return answered(factStream, status, failure, map[string]string{"error.code": code})
	}
	alert := diag.Fact{ID: factTaskWait, Failure: diag.MTLSUnknownCA, Phase: "mtls"}
	older := stream(404, diag.HTTPStatus, "")
	older.HTTP.ErrorCode = "session_not_found"
	linksAre(t, (*inputs).streamLink, map[string]linkRow{
		"not asked": {nil, nil, Unknown, "", "not asked"}, "let in": {[]diag.Fact{stream(101, "", "")}, nil, Pass, "", ""},
		"no such session":           {[]diag.Fact{stream(404, diag.HTTPStatus, "session_not_found")}, nil, Pass, "", ""},
		"no such session, unmapped": {[]diag.Fact{older}, nil, Pass, "", ""},
		"another 404":               {[]diag.Fact{stream(404, diag.HTTPStatus, "x")}, nil, Unknown, "", "HTTP 404 x"},
		"refused": {[]diag.Fact{stream(403, diag.HTTPStatus, "x")}, nil, Fail, CauseTerminal,
			"HTTP 403 x"},
		"refused by the ingress too": {[]diag.Fact{stream(403, diag.HTTPStatus, "x"), alert}, nil, Fail, CauseIngress, ""},
		"not reached": {[]diag.Fact{{ID: factStream, Failure: diag.TCPRefused}}, nil, Unknown, "",
			"tcp_refused"},
	})
}

// TestListedCAs: an ingress that lists other CAs than the certificate's issuer refuses it.
func TestListedCAs(t *testing.T) {
	cert := diag.Fact{ID: factIdentity, Cert: &diag.CertFacts{Leaf: diag.CertInfo{Serial: "7", Issuer: "CN=ca"}}}
	lists := func(id string, failure diag.Failure, names ...string) diag.Fact {
		f := handshake(id, fpA, nodeBundle, failure)
		f.TLS.AcceptableCAs = names
		return f
	}
	denied := answered(factTaskWait, 403, diag.HTTPStatus, nil)
	denied.TLS = &diag.TLSFacts{AcceptableCAs: []string{"CN=x"}}
	linksAre(t, (*inputs).acceptedLink, map[string]linkRow{
		"it is listed": {[]diag.Fact{cert, lists(factNodeAPI, "", "CN=x", "CN=ca")}, nil, Unknown, "",
			"no task wait"},
		"it is not": {[]diag.Fact{cert, lists(factNodeAPI, "", "CN=x")}, nil, Fail, CauseIngress,
			"the ingress lists x, not ca"},
		"none is listed":               {[]diag.Fact{cert, lists(factNodeAPI, "")}, nil, Unknown, "", "no task wait"},
		"no certificate":               {[]diag.Fact{lists(factNodeAPI, "", "CN=x")}, nil, Unknown, "", "no task wait"},
		"it is not, and it is refused": {[]diag.Fact{cert, denied}, nil, Fail, CauseIngress, "it lists x, not ca"},
		"it is let in all the same":    {[]diag.Fact{cert, lists(factTaskWait, "", "CN=x")}, nil, Pass, "", "let in"},
		"the wait's list counts": {[]diag.Fact{cert, lists(factTaskWait, diag.TCPRefused, "CN=ca"), lists(factNodeAPI, "",
			"CN=x")}, nil,
			Unknown, "", "neither let in nor refused"},
	})
}

// TestWhyNotMeasured: what is said of a fact that is no evidence.
func TestWhyNotMeasured(t *testing.T) {
	for _, tc := range []struct {
		f             *diag.Fact
		because, miss string
	}{
		{nil, "", "not measured"}, {new(answered("x", 200, "", nil)), "", "HTTP 200"},
		{new(answered("x", 404, "", nil)), ": HTTP 404", "HTTP 404"},
		{&diag.Fact{Failure: diag.TCPRefused}, ": tcp_refused", "tcp_refused"}, {&diag.Fact{Failure: diag.TCPRefused,
			Phase: "tcp"},
			": tcp_refused in tcp", "tcp_refused in tcp"},
		{&diag.Fact{}, "", "not said"},
	} {
		if because, miss := because(tc.f), missed(tc.f); because != tc.because || miss != tc.miss {
			t.Errorf("%+v: %q and %q, want %q and %q", tc.f, because, miss, tc.because, tc.miss)
		}
	}
	for w, want := range map[diag.Failure]bool{diag.TLSExpired: true, diag.TLSNotYetValid: true, diag.TLSUnknownCA: false,
		"": false} {
		if dates(w) != want {
			t.Errorf("%s: %v", w, dates(w))
		}
	}
	f := answered("x", 403, diag.HTTPStatus, map[string]string{"error.code": "a"})
	f.HTTP.ErrorCode = "b"
	if code(&f) != "a" || answer(&f) != "http_status, HTTP 403 a" {
		t.Errorf("%q, %q", code(&f), answer(&f))
	}
	f.HTTP.Fields = nil
	if code(&f) != "b" || code(&diag.Fact{}) != "" || answer(&diag.Fact{Failure: diag.TCPRefused}) != "tcp_refused" {
		t.Errorf("%q", code(&f))
	}
}

// TestControlPlaneLink: the report's link between the signing CA and the ingress.
func TestControlPlaneLink(t *testing.T) {
	for word, want := range map[string]Status{"true": Pass, "false": Fail, "": Unknown} {
		r := Explain(diag.Subject{}, []diag.Fact{answered(FactTrustPage, 200, "",
			map[string]string{"trust.ingress_trusts_signing_ca": word})})
		if l := r.ControlPlane(); l.ID != linkIngress || l.Status != want {
			t.Errorf("%q: %+v", word, l)
		}
	}
	l := Link{}.by(nil, &diag.Fact{ID: "a"}, &diag.Fact{ID: "a"}, &diag.Fact{ID: "b"})
	if got := fmt.Sprint(l.Evidence); got != "[a b]" {
		t.Error(got)
	}
}

// TestRowsOfTheTable: bundles, issuers and listed CAs, as the table shows them.
func TestRowsOfTheTable(t *testing.T) {
	s := newScene(diag.Subject{}, nil)
	many := slices.Repeat([]diag.CertInfo{{Fingerprint: fpA, Subject: "CN=a"}}, 16)
	for name, tc := range map[string]struct {
		b    roots
		want string // rows, the first one's reason and title, the last one's note
	}{
		"not set":      {roots{}, `1 "not set, or not read" "T" ""`},
		"not measured": {roots{path: "/b"}, `1 "not measured" "T" ""`},
		"failed":       {roots{path: "/b", why: &diag.Fact{Failure: diag.FileMissing}}, `1 "file_missing" "T" ""`},
		"one":          {roots{known: true, certs: many[:1]}, `1 "" "T" ""`},
		"two":          {roots{known: true, certs: many[:2]}, `2 "" "T 1/2" ""`},
		"fifteen":      {roots{known: true, certs: many[:15]}, `15 "" "T 1/15" ""`},
		"sixteen":      {roots{known: true, certs: many}, `16 "" "T 1/16" "perhaps more follow"`},
	} {
		rows := s.bundleRows("id", "T", node, tc.b)
		if got := fmt.Sprintf("%d %q %q %q", len(rows), rows[0].Missing, rows[0].Title,
			rows[len(rows)-1].Note); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	none, asks := handshake(factNodeAPI, fpA, "", ""), handshake(factNodeAPI, fpA, "", "")
	none.TLS.CertRequested, asks.TLS.CertRequested = no, yes
	lists := handshake(factTaskWait, fpA, "", "")
	lists.TLS.AcceptableCAs = []string{"CN=a", "CN=b"}
	for name, tc := range map[string]struct {
		facts []*diag.Fact
		want  string
	}{
		"none":     {[]*diag.Fact{nil, {}}, `1 "" "not measured"`},
		"no wish":  {[]*diag.Fact{nil, &none}, `1 "" "it asks for no certificate"`},
		"no names": {[]*diag.Fact{&asks}, `1 "" "it lists none"`},
		"names":    {[]*diag.Fact{&asks, &lists}, `2 "CN=a" ""`},
	} {
		rows := s.acceptableRows("id", "T", tc.facts...)
		if got := fmt.Sprintf("%d %q %q", len(rows), rows[0].Subject, rows[0].Missing); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
