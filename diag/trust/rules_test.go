package trust

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Fingerprints of CAs.
var (
	fpA, fpB, fpC = strings.Repeat("a", 64), strings.Repeat("b", 64), strings.Repeat("c", 64)
	yes, no       = new(true), new(false)
)

// pins are the fingerprints that a profile pins.
func pins(signing, ingress, server string) diag.Subject {
	return diag.Subject{NodeID: "n1", Expected: map[string]string{"signing_ca_fingerprint": signing,
		"ingress_ca_fingerprint": ingress, "node_api_server_fingerprint": server}}
}

// TestWhichCAChanged: of the node's certificate, the signing CA and the ingress CA, by the pins if exactly one of them
// fails, else by who issued the node's certificate before.
func TestWhichCAChanged(t *testing.T) {
	for name, tc := range map[string]struct {
		signing, ingress string
		trusted          *bool
		issuer           string
		pinS, pinI       string
		want             Cause
	}{
		"all match":                             {fpA, fpA, yes, fpA, "", "", ""},
		"all match, and are pinned":             {fpA, fpA, yes, fpA, fpA, fpA, ""},
		"nothing is known":                      {"", "", nil, "", "", "", ""},
		"nothing is known but pins":             {"", "", nil, "", fpA, fpA, ""},
		"an older certificate":                  {fpA, fpA, yes, fpB, "", "", CauseCredential},
		"an older certificate, it is not known": {fpA, "", nil, fpB, "", "", CauseCredential},
		"an older certificate, pinned":          {fpA, fpA, yes, fpB, fpA, fpA, CauseCredential},
		"both CAs are others than pinned":       {fpA, fpA, yes, fpB, fpB, fpB, CauseSigning},
		"the signing CA is another than pinned": {fpA, fpA, yes, fpB, fpC, "", CauseSigning},
		"the pins are old":                      {fpA, fpA, yes, fpA, fpB, fpB, CausePins},
		"the pins are old, no issuer is known":  {fpA, fpA, yes, "", fpB, fpB, CausePins},
		"one pin alone is old":                  {fpA, fpA, yes, fpA, fpB, "", ""},
		"the other pin alone is old":            {fpA, fpA, yes, fpA, "", fpB, ""},
		"the ingress pin is old":                {fpA, fpA, yes, fpA, fpA, fpB, ""},
		"old pins, one CA is not known":         {fpA, "", yes, fpA, fpB, fpB, ""},
		"they differ, the node's is of neither": {fpA, fpB, no, fpC, "", "", CauseControl},
		"they differ, the node's is not known":  {fpA, fpB, no, "", "", "", CauseControl},
		"they differ, the node's is of signing": {fpA, fpB, no, fpA, "", "", CauseIngress},
		"they differ, the node's is of ingress": {fpA, fpB, no, fpB, "", "", CauseSigning},
		"they differ, the ingress pin fails":    {fpA, fpB, no, fpB, fpA, fpA, CauseIngress},
		"they differ, the signing pin fails":    {fpA, fpB, no, fpA, fpB, fpB, CauseSigning},
		"they differ, both pins hold":           {fpA, fpB, no, fpA, fpA, fpB, CauseIngress},
		"they differ, both pins fail":           {fpA, fpB, no, fpB, fpC, fpC, CauseSigning},
		"they differ, one pin that holds":       {fpA, fpB, no, fpB, fpA, "", CauseSigning},
		"they differ, one pin that fails":       {fpA, fpB, no, fpA, "", fpC, CauseIngress},
		"they differ, one CA and its pin":       {fpA, "", no, fpB, fpA, fpC, CauseControl},
		"they differ, the other CA and its pin": {"", fpB, no, fpC, fpC, fpB, CauseControl},
	} {
		s := &inputs{subject: pins(tc.pinS, tc.pinI, ""), signing: tc.signing, ingress: tc.ingress, trusted: tc.trusted,
			issuer: tc.issuer}
		if got := s.caCause(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// answered is a fact with an HTTP answer.
func answered(id string, status int, failure diag.Failure, fields map[string]string) diag.Fact {
	return diag.Fact{ID: id, Failure: failure, HTTP: &diag.HTTPFacts{Status: status, Fields: fields}}
}

// TestWhatThePlatformTrusts: its own word, else the comparison of its CAs.
func TestWhatThePlatformTrusts(t *testing.T) {
	for name, tc := range map[string]struct {
		word, signing, ingress string
		want                   *bool
	}{
		"it says yes": {"true", fpA, fpB, yes}, "it says no": {"false", fpA, fpA, no}, "the same": {"", fpA, fpA, yes},
		"others": {"", fpA, fpB, no}, "one alone": {"", fpA, "", nil}, "the other alone": {"", "", fpA, nil},
		"none": {"", "", "", nil}, "a strange word": {"maybe", fpA, fpA, yes},
	} {
		s := newScene(diag.Subject{}, []diag.Fact{answered(FactTrustPage, 200, "", map[string]string{
			"trust.ingress_trusts_signing_ca": tc.word, "trust.signing_ca": tc.signing, "trust.ingress_ca": tc.ingress})})
		if got := s.trusted; (got == nil) != (tc.want == nil) || (got != nil && *got != *tc.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWhoIssued: the CA that issued the node's certificate, by the platform if it speaks of this certificate, else by
// the certificate beside it.
func TestWhoIssued(t *testing.T) {
	cert := &diag.CertFacts{Leaf: diag.CertInfo{Serial: "7", Issuer: "CN=ca"},
		Chain: []diag.CertInfo{{Subject: "CN=x", Fingerprint: fpB}, {Subject: "CN=ca", Fingerprint: fpC}}}
	bare := &diag.CertFacts{Leaf: cert.Leaf}
	for name, tc := range map[string]struct {
		cert           *diag.CertFacts
		serial, issuer string
		want           string
	}{
		"the platform knows": {cert, "7", fpA, fpA}, "it speaks of another": {cert, "8", fpA, fpC},
		"it does not say": {cert, "7", "", fpC}, "nobody says": {bare, "8", fpA, ""}, "no certificate": {nil, "", fpA, ""},
	} {
		s := newScene(diag.Subject{}, []diag.Fact{{ID: factIdentity, Cert: tc.cert}, answered(factReadModel, 200, "",
			map[string]string{"node.cert_serial": tc.serial, "node.cert_issuer_fingerprint": tc.issuer})})
		if s.issuer != tc.want {
			t.Errorf("%s: %q, want %q", name, s.issuer, tc.want)
		}
	}
}

// TestWhatIsEvidence: a fact that was cut short, or failed before its request reached the node, is none.
func TestWhatIsEvidence(t *testing.T) {
	for name, tc := range map[string]struct {
		f    diag.Fact
		want bool
	}{
		"a success": {diag.Fact{HTTP: &diag.HTTPFacts{Status: 200}}, true},
		"a failure": {diag.Fact{Failure: diag.TCPRefused}, true},
		"nothing":   {diag.Fact{}, false},
		"cut short": {diag.Fact{Failure: diag.Cancelled}, false},
		"no login":  {diag.Fact{Failure: diag.TCPRefused, Phase: "ssh"}, false},
		"a login":   {diag.Fact{Failure: diag.TCPRefused, Phase: "ssh", Request: diag.Request{Op: diag.OpSSH}}, true},
	} {
		if got := isEvidence(&tc.f); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for f, want := range map[*diag.Fact]struct{ barred, unseen bool }{
		{Failure: diag.NotPermitted}: {true, true}, {Failure: diag.FileUnreadable, Errno: "EACCES"}: {true, true},
		{Failure: diag.Unsupported}: {false, true}, {Failure: diag.Unknown}: {false, true}, {Failure: diag.Timeout}: {false,
			true},
		{Failure: diag.FileMissing}: {false, false}, {Failure: diag.FileUnreadable, Errno: "EIO"}: {false, false},
	} {
		if barred(f) != want.barred || unseen(f) != want.unseen {
			t.Errorf("%s %s: barred %v, unseen %v", f.Failure, f.Errno, barred(f), unseen(f))
		}
		if r := (roots{why: f}); r.broken() == want.unseen || (roots{why: f, known: true}).broken() {
			t.Errorf("a bundle with %s: broken %v", f.Failure, r.broken())
		}
	}
	if (roots{}).broken() {
		t.Error("a bundle that was not looked at is broken")
	}
}

// TestLongBundles: a fact holds sixteen certificates; what it lacks may be behind them.
func TestLongBundles(t *testing.T) {
	for n, want := range map[int]*bool{0: no, 15: no, 16: nil, 17: nil} {
		r := roots{certs: make([]diag.CertInfo, n)}
		if got := r.holds(fpA); (got == nil) != (want == nil) || (got != nil && *got) {
			t.Errorf("of %d: %v", n, got)
		}
		r.certs = append(r.certs, diag.CertInfo{Fingerprint: fpA, Subject: "CN=a"})
		if got := r.holds(fpA); got == nil || !*got || r.named("CN=a") == nil || r.named("CN=b") != nil {
			t.Errorf("it is the last of %d: %v", n+1, got)
		}
	}
}

// TestEndpoints: what counts of a URL.
func TestEndpoints(t *testing.T) {
	for raw, want := range map[string]string{"https://A.test": "a.test:443", "a.test:8443": "a.test:8443", "": "",
		"https://": "", "https://a.test:1/x": "a.test:1", "https://[::1]": "[::1]:443", "https://%": ""} {
		if got := endpoint(raw); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}

// TestCredential: what the file of the node's certificate shows.
func TestCredential(t *testing.T) {
	cert := &diag.CertFacts{Leaf: diag.CertInfo{Serial: "7"}}
	bound, other := *cert, *cert
	bound.NodeBound, other.NodeBound, other.BoundTo = yes, no, "n2"
	missing := diag.Fact{ID: factIdentity, Failure: diag.FileMissing}
	bundle := diag.Fact{ID: factBundle, Failure: diag.FileMissing}
	known := answered(factReadModel, 200, "", nil)
	for name, tc := range map[string]struct {
		facts []diag.Fact
		want  Status
		text  string
	}{
		"not looked at": {nil, Unknown, "not looked at"},
		"not allowed": {[]diag.Fact{{ID: factIdentity, Failure: diag.NotPermitted}}, Unknown,
			"may not read"},
		"not seen": {[]diag.Fact{{ID: factIdentity, Failure: diag.Timeout}}, Unknown,
			"could not be looked at"},
		"missing, and nothing else is known": {[]diag.Fact{missing}, Fail, "file_missing"},
		"missing, and so is the bundle":      {[]diag.Fact{missing, bundle}, Unknown, "no agent is installed"},
		"missing, on a node that is known":   {[]diag.Fact{missing, bundle, known}, Fail, "file_missing"},
		"missing, on a node that is not": {[]diag.Fact{missing, bundle, answered(factReadModel, 404, diag.HTTPStatus,
			nil)}, Unknown, "no agent is installed"},
		"damaged": {[]diag.Fact{{ID: factIdentity, Failure: diag.FileUnparseable, Detail: "d"}},
			Fail, "file_unparseable: d"},
		"damaged, the bundle lost": {[]diag.Fact{{ID: factIdentity, Failure: diag.FileUnparseable}, bundle}, Fail,
			"file_unparseable"},
		"good":           {[]diag.Fact{{ID: factIdentity, Cert: cert}}, Pass, "serial 7"},
		"bound":          {[]diag.Fact{{ID: factIdentity, Cert: &bound}}, Pass, "serial 7"},
		"another node's": {[]diag.Fact{{ID: factIdentity, Cert: &other}}, Fail, "bound to n2, not to n1"},
	} {
		l := newScene(pins("", "", ""), tc.facts).credentialLink()
		if l.Status != tc.want || !strings.Contains(l.Text, tc.text) || (l.Cause == CauseCredential) != (tc.want == Fail) {
			t.Errorf("%s: %s %q: %s, want %s: %s", name, l.Status, l.Cause, l.Text, tc.want, tc.text)
		}
	}
}

// TestAcceptance: the ingress's answer to the node's certificate, and why it refuses.
func TestAcceptance(t *testing.T) {
	good := diag.Fact{ID: factIdentity, Cert: &diag.CertFacts{Leaf: diag.CertInfo{Serial: "7", Issuer: "CN=ca"}}}
	damaged := diag.Fact{ID: factIdentity, Failure: diag.FileUnparseable}
	ingress400 := answered(factTaskWait, 400, diag.MTLSIngress400, nil)
	ingress400.Phase = "http"
	alert := diag.Fact{ID: factTaskWait, Failure: diag.MTLSUnknownCA, Phase: "mtls"}
	for name, tc := range map[string]struct {
		facts   []diag.Fact
		trusted *bool
		want    Status
		cause   Cause
	}{
		"let in":                  {[]diag.Fact{good, answered(factTaskWait, 204, "", nil)}, yes, Pass, ""},
		"not asked":               {[]diag.Fact{good}, yes, Unknown, ""},
		"not reached":             {[]diag.Fact{good, {ID: factTaskWait, Failure: diag.TCPRefused}}, yes, Unknown, ""},
		"refused by an alert":     {[]diag.Fact{good, alert}, yes, Fail, CauseIngress},
		"refused, the CAs differ": {[]diag.Fact{good, alert}, no, Fail, CauseControl},
		"refused, it is damaged":  {[]diag.Fact{damaged, alert}, yes, Fail, CauseCredential},
		"refused above TLS by 400": {[]diag.Fact{good, ingress400}, yes, Fail,
			CauseIngress},
		"refused, and a pin is old": {[]diag.Fact{good, alert, answered(FactTrustPage, 200, "", map[string]string{
			"trust.signing_ca": fpA, "trust.ingress_ca": fpA})}, yes, Fail, CauseIngress},
		"denied by the platform": {[]diag.Fact{good, answered(factTaskWait, 403, diag.HTTPStatus,
			map[string]string{"error.code": "node_revoked"})}, yes, Fail, CauseDenied},
	} {
		s := newScene(pins(fpB, fpB, ""), tc.facts)
		s.trusted = tc.trusted
		l := s.acceptedLink()
		if l.Status != tc.want || l.Cause != tc.cause {
			t.Errorf("%s: %s %q: %s, want %s %q", name, l.Status, l.Cause, l.Text, tc.want, tc.cause)
		}
	}
}

// TestPins: what the platform has, compared with what the profile pins; an ingress may trust more than the pinned CA.
func TestPins(t *testing.T) {
	for name, tc := range map[string]struct {
		pin, signing, ingress string
		trusted               *bool
		want                  Status
		cause                 Cause
	}{
		"no pin":               {"", fpA, fpA, yes, NotSet, ""},
		"not said":             {fpA, "", "", nil, Unknown, ""},
		"it holds":             {fpA, fpB, fpA, no, Pass, ""},
		"it is among them":     {fpA, fpA, fpB, yes, Pass, ""},
		"it is not trusted":    {fpA, fpA, fpB, no, Fail, CauseControl},
		"trusted is not known": {fpA, fpA, fpB, nil, Fail, CausePins},
		"it is another":        {fpA, fpB, fpB, yes, Fail, CausePins},
	} {
		s := newScene(pins("", tc.pin, ""), nil)
		s.signing, s.ingress, s.trusted = tc.signing, tc.ingress, tc.trusted
		if l := s.pinIngressLink(); l.Status != tc.want || l.Cause != tc.cause {
			t.Errorf("%s: %s %q: %s, want %s %q", name, l.Status, l.Cause, l.Text, tc.want, tc.cause)
		}
	}
}

// TestSigning: whose certificate the node has; old and new CA side by side are no fault while the node is let in.
func TestSigning(t *testing.T) {
	for name, tc := range map[string]struct {
		signing, issuer string
		trusted         *bool
		letIn           bool
		want            Status
		cause           Cause
	}{
		"not said":              {"", fpA, nil, true, Unknown, ""},
		"by name only":          {fpA, "", yes, true, Unknown, ""},
		"it signs":              {fpA, fpA, no, false, Pass, ""},
		"side by side":          {fpA, fpB, yes, true, Pass, ""},
		"side by side, refused": {fpA, fpB, yes, false, Fail, CauseCredential},
		"not trusted, let in":   {fpA, fpB, no, true, Fail, CauseControl},
		"not known, let in":     {fpA, fpB, nil, true, Fail, CauseCredential},
	} {
		facts := []diag.Fact{{ID: factIdentity, Cert: &diag.CertFacts{Leaf: diag.CertInfo{Issuer: "CN=ca"}}}}
		if tc.letIn {
			facts = append(facts, answered(factTaskWait, 204, "", nil))
		}
		s := newScene(pins("", "", ""), facts)
		s.signing, s.issuer, s.trusted = tc.signing, tc.issuer, tc.trusted
		if l := s.signingLink(); l.Status != tc.want || l.Cause != tc.cause {
			t.Errorf("%s: %s %q: %s, want %s %q", name, l.Status, l.Cause, l.Text, tc.want, tc.cause)
		}
	}
	if l := newScene(pins("", "", ""), nil).signingLink(); l.Status != Unknown {
		t.Errorf("nothing: %+v", l)
	}
	none := newScene(pins("", "", ""), nil)
	if none.signing = fpA; none.signingLink().Status != Unknown {
		t.Error("no certificate of the node")
	}
}

// TestWhichServerChanged: of the node API's leaf, the node's bundle and the profile's bundle.
func TestWhichServerChanged(t *testing.T) {
	chain := func(id string, fingerprint string, verified bool) diag.Fact {
		f := diag.Fact{ID: id, Target: "https://api.test", TLS: &diag.TLSFacts{Verified: verified,
			Chain: []diag.CertInfo{{Fingerprint: fingerprint, NotAfter: diag.At(time.Now().Add(time.Hour))}}}}
		if !verified {
			f.Failure = diag.TLSUnknownCA
		}
		return f
	}
	profileBundle := diag.Fact{ID: factProfileBundle, Cert: &diag.CertFacts{Leaf: diag.CertInfo{Fingerprint: fpC}}}
	for name, tc := range map[string]struct {
		facts []diag.Fact
		pin   string
		says  string // by the platform
		want  Cause
	}{
		"nothing is seen": {nil, "", "", ""},
		"the node verifies it": {[]diag.Fact{chain(factNodeAPI, fpA, true), chain(factOperatorAPI, fpA,
			false)}, fpB, "", ""},
		"the node does not":                    {[]diag.Fact{chain(factNodeAPI, fpA, false)}, "", "", CauseEdge},
		"the node does not, it is pinned":      {[]diag.Fact{chain(factNodeAPI, fpA, false)}, fpA, "", CauseBundle},
		"the node does not, another is pinned": {[]diag.Fact{chain(factNodeAPI, fpA, false)}, fpB, "", CauseEdge},
		"the profile does": {[]diag.Fact{chain(factNodeAPI, fpA, false), chain(factOperatorAPI, fpA,
			true), profileBundle}, "", "", CauseBundle},
		"neither does": {[]diag.Fact{chain(factNodeAPI, fpA, false), chain(factOperatorAPI, fpA,
			false), profileBundle}, "", "", CauseEdge},
		"neither does, it is pinned": {[]diag.Fact{chain(factNodeAPI, fpA, false), chain(factOperatorAPI, fpA,
			false), profileBundle}, fpA, "", CauseProfileCA},
		"the system does": {[]diag.Fact{chain(factNodeAPI, fpA, false), chain(factOperatorAPI, fpA,
			true)}, "", "", CauseEdge},
		"another than the platform says": {[]diag.Fact{chain(factNodeAPI, fpA, true)}, "", fpB, CauseEdge},
		"as the platform says":           {[]diag.Fact{chain(factNodeAPI, fpA, true)}, "", fpA, ""},
		"seen by the operator alone":     {[]diag.Fact{chain(factOperatorAPI, fpA, false)}, "", "", ""},
		"two listeners": {[]diag.Fact{chain(factNodeAPI, fpA, true), chain(factOperatorAPI, fpB,
			true)}, "", "", CauseEnvironment},
		"a bundle that cannot be used": {[]diag.Fact{chain(factNodeAPI, fpA, true), {ID: factBundle,
			Failure: diag.FileUnparseable}}, "", "", CauseBundle},
		"a bundle that was not seen": {[]diag.Fact{chain(factNodeAPI, fpA, true), {ID: factBundle,
			Failure: diag.Timeout}}, "", "", ""},
	} {
		facts := tc.facts
		if tc.says != "" {
			facts = append(slices.Clone(facts), answered(FactTrustPage, 200, "",
				map[string]string{"trust.node_api_server": tc.says}))
		}
		if got := newScene(pins("", "", tc.pin), facts).serverCause(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestWhichBundleIsOld: of the node's and the profile's, if the node's lacks a certificate; and why the terminal's leaf
// is not verified.
func TestWhichBundleIsOld(t *testing.T) {
	seen := func(id string, verified bool) diag.Fact {
		f := diag.Fact{ID: id, Target: "https://api.test", TLS: &diag.TLSFacts{Verified: verified,
			Chain: []diag.CertInfo{{Fingerprint: fpA, NotAfter: diag.At(time.Now().Add(time.Hour))}}}}
		if !verified {
			f.Failure = diag.TLSUnknownCA
		}
		return f
	}
	profileBundle := diag.Fact{ID: factProfileBundle, Cert: &diag.CertFacts{Leaf: diag.CertInfo{Fingerprint: fpC}}}
	for name, tc := range map[string]struct {
		facts            []diag.Fact
		bundle, terminal Cause
	}{
		"nothing is seen": {nil, CauseBundle, CauseTerminal},
		"both verify": {[]diag.Fact{seen(factNodeAPI, true), seen(factOperatorAPI, true)}, CauseBundle,
			CauseTerminal},
		"the node's alone verifies": {[]diag.Fact{seen(factNodeAPI, true), seen(factOperatorAPI, false)}, CauseProfileCA,
			CauseTerminal},
		"the node's verifies":    {[]diag.Fact{seen(factNodeAPI, true)}, CauseBundle, CauseTerminal},
		"the profile's does not": {[]diag.Fact{seen(factOperatorAPI, false)}, CauseBundle, CauseTerminal},
		"the profile's alone verifies": {[]diag.Fact{seen(factNodeAPI, false), seen(factOperatorAPI, true), profileBundle},
			CauseBundle, CauseBundle},
		"the node's does not": {[]diag.Fact{seen(factNodeAPI, false)}, CauseEdge, CauseEdge},
		"the profile's verifies the terminal": {[]diag.Fact{seen(factOperatorTerminal, true), profileBundle},
			CauseBundle, CauseBundle},
		"the profile's does not verify the terminal": {[]diag.Fact{seen(factOperatorTerminal, false), profileBundle},
			CauseBundle, CauseTerminal},
		"the system's verifies the terminal": {[]diag.Fact{seen(factOperatorTerminal, true)}, CauseBundle, CauseTerminal},
		"the terminal is not seen":           {[]diag.Fact{profileBundle}, CauseBundle, CauseTerminal},
	} {
		s := newScene(pins("", "", ""), tc.facts)
		if bundle, terminal := s.bundleCause(), s.terminalCause(); bundle != tc.bundle || terminal != tc.terminal {
			t.Errorf("%s: %q and %q, want %q and %q", name, bundle, terminal, tc.bundle, tc.terminal)
		}
	}
}

// TestFirstOfSeveral: the first fact that is wanted, else the first failure.
func TestFirstOfSeveral(t *testing.T) {
	chain := &diag.TLSFacts{Chain: []diag.CertInfo{{}}}
	for name, tc := range map[string]struct {
		facts []diag.Fact
		want  string
	}{
		"none": {nil, ""}, "a success that is not wanted": {[]diag.Fact{answered("a", 200, "", nil)}, ""},
		"a failure": {[]diag.Fact{{ID: "b", Failure: diag.TCPRefused}}, "b"},
		"two failures": {[]diag.Fact{{ID: "b", Failure: diag.TCPRefused}, {ID: "a",
			Failure: diag.TCPRefused}}, "a"},
		"a failure, and one that is wanted": {[]diag.Fact{{ID: "a", Failure: diag.TCPRefused}, {ID: "b", TLS: chain}}, "b"},
		"two that are wanted":               {[]diag.Fact{{ID: "b", TLS: chain}, {ID: "a", TLS: chain}}, "a"},
		"a failure behind a success": {[]diag.Fact{answered("a", 200, "", nil), {ID: "b", Failure: diag.TCPRefused}},
			"b"},
	} {
		got := ""
		if f := newScene(diag.Subject{}, tc.facts).first(hasTLS, "a", "b"); f != nil {
			got = f.ID
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestInvalidLeaves: at the bounds of its dates, and by its name.
func TestInvalidLeaves(t *testing.T) {
	from, to := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2030, 2, 1, 0, 0, 0, 0, time.UTC)
	l := &diag.CertInfo{NotBefore: diag.At(from), NotAfter: diag.At(to)}
	for at, want := range map[time.Time]string{{}: "", from.Add(-time.Second): "it begins", from: "", to: "",
		to.Add(time.Second): "it ended"} {
		f := &diag.Fact{}
		if !at.IsZero() {
			f.At = diag.At(at)
		}
		if got := invalid(l, f); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("at %v: %q, want %q", at, got, want)
		}
	}
	named := &diag.Fact{Failure: diag.TLSNameMismatch, TLS: &diag.TLSFacts{ServerName: "a"}}
	if got := invalid(l, named); !strings.Contains(got, "not for a") {
		t.Errorf("another name: %q", got)
	}
	l.Fingerprint = fpA
	ca := diag.CertInfo{Subject: "CN=issuing", Fingerprint: fpB, NotAfter: diag.At(from)}
	for name, tc := range map[string]struct {
		chain []diag.CertInfo
		want  string
	}{
		"a CA that is presented": {[]diag.CertInfo{*l, ca}, "issuing, which signed it and is presented with it"},
		"a root of the bundle":   {[]diag.CertInfo{*l}, ""},
	} {
		f := &diag.Fact{Failure: diag.TLSExpired, TLS: &diag.TLSFacts{Chain: tc.chain, Misdated: &ca}}
		if got := invalid(l, f); !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestRefusals: which answers are the peer's refusal of the certificate.
func TestRefusals(t *testing.T) {
	if refused(nil) {
		t.Error("no fact is a refusal")
	}
	for _, w := range []diag.Failure{diag.MTLSUnknownCA, diag.MTLSCertExpired, diag.MTLSCertNotYetValid,
		diag.MTLSCertRejected, diag.MTLSIngress400} {
		for phase, want := range map[string]bool{"mtls": true, "http": true, "ws": true, "tcp": false, "": false} {
			if got := refused(&diag.Fact{Failure: w, Phase: phase}); got != want {
				t.Errorf("%s in %q: %v", w, phase, got)
			}
		}
	}
	for status, want := range map[int]bool{200: false, 400: false, 401: true, 402: false, 403: true, 404: false,
		429: false} {
		f := answered("x", status, diag.HTTPStatus, nil)
		if got := refused(&f); got != want {
			t.Errorf("%d: %v", status, got)
		}
	}
	for dn, want := range map[string]string{"CN=a,O=b": "a", "O=b,CN=a": "a", "O=b": "O=b", "": ""} {
		if got := CommonName(dn); got != want {
			t.Errorf("%q: %q", dn, got)
		}
	}
	for n, want := range map[int]string{0: "", 1: "a", 3: "a, a, a", 4: "a, a, a, ..."} {
		if got := clip(slices.Repeat([]string{"CN=a"}, n)); got != want {
			t.Errorf("%d names: %q, want %q", n, got, want)
		}
	}
}
