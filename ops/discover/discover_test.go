package discover_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops/discover"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/profile"
	"github.com/gpuaas/gpuaasctl/tools/testkit/porttest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

func TestMain(m *testing.M) {
	sshtest.HelperMain()
	os.Unsetenv("SSH_AUTH_SOCK")
	os.Exit(m.Run())
}

// chain is a server's certificate, and what it presents above it.
type chain struct {
	name    string
	until   time.Time
	present []string // "root" | "between"; the server's own is always presented
	own     bool     // signed by itself
}

// made returns the certificate of a server, and the root's.
func (c chain) made(t *testing.T) (tls.Certificate, *x509.Certificate) {
	t.Helper()
	serial := int64(0)
	sign := func(name string, ca bool, until time.Time, by *x509.Certificate, with *ecdsa.PrivateKey) (
		*x509.Certificate, *ecdsa.PrivateKey,
	) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		serial++
		tmpl := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until, IsCA: ca, BasicConstraintsValid: true}
		if ca {
			tmpl.KeyUsage = x509.KeyUsageCertSign
		} else if ip := net.ParseIP(name); ip != nil {
			tmpl.IPAddresses = []net.IP{ip}
		} else {
			tmpl.DNSNames = []string{name}
		}
		if by == nil {
			by, with = tmpl, key
		}
		der, err := x509.CreateCertificate(rand.Reader, tmpl, by, key.Public(), with)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return cert, key
	}
	late := time.Now().Add(24 * time.Hour)
	if c.until.IsZero() {
		c.until = late
	}
	if c.own {
		leaf, key := sign(c.name, false, c.until, nil, nil)
		return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}, leaf
	}
	root, rootKey := sign("a root", true, late, nil, nil)
	between, betweenKey := sign("a CA between", true, late, root, rootKey)
	leaf, key := sign(c.name, false, c.until, between, betweenKey)
	out := tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}
	for _, name := range c.present {
		out.Certificate = append(out.Certificate, map[string]*x509.Certificate{"root": root, "between": between}[name].Raw)
	}
	return out, root
}

// server starts a server, and returns the paths that it was asked for.
func server(t *testing.T, cert tls.Certificate, h http.Handler) (base string, asked func() []string) {
	t.Helper()
	tier.NeedsHost(t)
	var mu sync.Mutex
	var paths []string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		paths = append(paths, r.URL.Path+" "+r.Header.Get("Authorization"))
		mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = nil
	if cert.PrivateKey == nil {
		s.Start()
	} else {
		s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
		s.StartTLS()
	}
	t.Cleanup(s.Close)
	return s.URL, func() []string { mu.Lock(); defer mu.Unlock(); return paths }
}

// serves answers the paths as given, and every other as the path "*", else with 404.
type serves map[string]func(http.ResponseWriter)

func (s serves) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if answer := s[r.URL.Path]; answer != nil {
		answer(w)
	} else if answer = s["*"]; answer != nil {
		answer(w)
	} else {
		http.NotFound(w, r)
	}
}

func says(status int, kind, text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}
}

func to(url string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.Header().Set("Location", url); w.WriteHeader(http.StatusFound) }
}

// TestCertificate: what a server presents is offered, and nothing is asked before it is accepted.
func TestCertificate(t *testing.T) {
	const here, unknown = "127.0.0.1", "unknown authority"
	all := []string{"between", "root"}
	for name, c := range map[string]struct {
		chain chain
		offer string // part of the subject of the CA that is offered
		why   string // part of why it does not verify
		lacks string // part of the issuer that is missing
	}{
		"with its root":             {chain{name: here, present: all}, "a root", unknown, ""},
		"without its root":          {chain{name: here, present: all[:1]}, "a CA between", unknown, ""},
		"alone":                     {chain{name: here}, "", unknown, "a CA between"},
		"signed by itself":          {chain{name: here, own: true}, here, unknown, ""},
		"expired":                   {chain{name: here, until: time.Now().Add(-time.Hour), present: all}, "", "expired", ""},
		"of another name":           {chain{name: "other.example", present: all}, "", here, ""},
		"of another, and by itself": {chain{name: "other.example", own: true}, "", here, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cert, _ := c.chain.made(t)
			base, asked := server(t, cert, serves{"/healthz": says(200, "text/plain", "ok")})
			s := discover.Inspect(t.Context(), discover.Question{API: base}).API
			if s.Verified != "" || s.Error != "" || !strings.Contains(s.Unverified, c.why) ||
				!strings.Contains(s.Issuer, c.lacks) {
				t.Errorf("%+v", s)
			}
			if (s.CA != nil) != (c.offer != "") || (s.CA != nil && !strings.Contains(s.CA.Subject, c.offer)) {
				t.Errorf("offered: %+v", s.CA)
			}
			if got := asked(); len(got) > 0 || s.Health != "" {
				t.Errorf("asked %q of a server that does not verify", got)
			}
			if s.CA == nil {
				return
			}
			wrong := discover.Inspect(t.Context(), discover.Question{API: base, Accept: strings.Repeat("0", 64)}).API
			if wrong.Verified != "" || len(asked()) > 0 {
				t.Errorf("another CA than the accepted one: %+v", wrong)
			}
			s = discover.Inspect(t.Context(), discover.Question{API: base, Accept: s.CA.SHA256}).API
			if s.Verified != "the accepted CA" || s.Unverified != "" || s.Health != "/healthz" {
				t.Errorf("accepted: %+v", s)
			}
		})
	}
}

// TestHealthPage: the page that says whether the server is well is told apart from what answers every path.
func TestHealthPage(t *testing.T) {
	const text, data = "text/plain", "application/json"
	ok, page := says(200, data, `{"status":"ok"}`), says(200, "text/html", "<html>an app")
	done := func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }
	kubernetes := says(200, data, `{"major":"1","minor":"31","gitVersion":"v1.31.0"}`)
	teleport := says(200, data, `{"server_version":"16.0.0","cluster_name":"a","auth":{}}`)
	for name, c := range map[string]struct {
		server serves
		want   string
		now    string
		kind   string
		login  string
	}{
		"one of the usual":         {server: serves{"/api/health": ok}, want: "/api/health"},
		"an app for every path":    {server: serves{"*": page}},
		"an app beside it":         {server: serves{"*": page, "/health": ok}, want: "/health"},
		"every path answers alike": {server: serves{"*": ok}},
		"red now":                  {server: serves{"/readyz": says(503, text, "no")}, want: "/readyz", now: "503"},
		"all is down":              {server: serves{"*": says(503, text, "no")}},
		"an error page of an edge": {server: serves{"/healthz": says(503, "text/html", "<html>")}},
		"nothing to say":           {server: serves{"/healthz": done}, want: "/healthz"},
		"none":                     {server: serves{}},
		"behind a login":           {server: serves{"*": to("https://login.example/go?x=y")}, login: "login.example/go"},
		"public behind a login": {server: serves{"*": to("https://login.example/"), "/healthz": ok}, want: "/healthz",
			login: "login.example/"},
		"refuses without a token": {server: serves{"*": says(401, data, `{}`), "/livez": ok}, want: "/livez",
			login: "HTTP 401"},
		"Kubernetes": {server: serves{"/livez": ok, "/version": kubernetes}, want: "/livez",
			kind: profile.KindKubernetesNode},
		"Teleport": {server: serves{"*": page, "/webapi/ping": teleport}, want: "/webapi/ping",
			kind: profile.KindTeleportLike},
		"endless": {server: serves{"/healthz": says(200, text, strings.Repeat("x", 1<<20)), "/livez": ok},
			want: "/livez"},
	} {
		t.Run(name, func(t *testing.T) {
			base, _ := server(t, tls.Certificate{}, c.server)
			s := discover.Inspect(t.Context(), discover.Question{API: base}).API
			if s.Error != "" || s.Health != c.want || s.Kind != c.kind || s.Login != c.login ||
				!strings.Contains(s.HealthNow, c.now) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestReadModel: the page about the node is asked with the token, and never where anybody could read it.
func TestReadModel(t *testing.T) {
	cert, _ := chain{name: "127.0.0.1", present: []string{"between", "root"}}.made(t)
	pages := serves{"/v1/nodes/n1": says(200, "application/json", `{"id":"n1"}`)}
	q := discover.Question{ReadModel: "/v1/nodes/n1", Token: diag.NewSecret("the-secret")}
	base, asked := server(t, cert, pages)
	q.API = base
	if discover.Inspect(t.Context(), q); len(asked()) > 0 {
		t.Errorf("asked %q", asked())
	}
	q.Accept = discover.Inspect(t.Context(), q).API.CA.SHA256
	if s := discover.Inspect(t.Context(), q).API; !s.HasNode || s.ReadModel != "HTTP 200" {
		t.Errorf("%+v", s)
	}
	for _, a := range asked() {
		if secret := strings.Contains(a, "the-secret"); secret != strings.HasPrefix(a, "/v1/nodes/n1 ") {
			t.Errorf("asked %q", a)
		}
	}
	base, asked = server(t, tls.Certificate{}, pages)
	q.API = base
	s := discover.Inspect(t.Context(), q).API
	if s.HasNode || strings.Contains(strings.Join(asked(), "\n"), "the-secret") {
		t.Errorf("%+v, asked %q", s, asked())
	}
}

func TestNothingAnswers(t *testing.T) {
	tier.NeedsHost(t)
	nobody := porttest.TCP(t)
	found := discover.Inspect(t.Context(), discover.Question{API: "https://" + nobody, Terminal: "http://" + nobody})
	if found.API.Error == "" || found.Terminal.Error == "" || found.Node != nil {
		t.Errorf("%+v %+v", found.API, found.Terminal)
	}
}

// TestNode: what a login is and finds, and a host key that is not known is shown.
func TestNode(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	s := sshtest.Start(t, sshtest.Config{})
	login := s.Login(t)
	cfg := vantage.NodeConfig{ID: "n1", Host: s.Host, SSH: login}
	n := discover.Inspect(t.Context(), discover.Question{Node: &cfg}).Node
	if n.Error != "" || n.HostKey != "" || n.As == "" {
		t.Errorf("%+v", n)
	}
	login.KnownHosts = sshtest.KnownHosts(t)
	cfg.SSH = login
	n = discover.Inspect(t.Context(), discover.Question{Node: &cfg}).Node
	if !strings.HasPrefix(n.HostKey, "SHA256:") || n.As != "" {
		t.Errorf("%+v", n)
	}
	nobody := sshtest.Nobody(t)
	cfg.Host, cfg.SSH.Port = nobody.Host, nobody.Port
	if n := discover.Inspect(t.Context(), discover.Question{Node: &cfg}).Node; n.Error == "" || n.HostKey != "" {
		t.Errorf("%+v", n)
	}
}
