package discover

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	pageTime = 3 * time.Second
	// pageBytes bounds an answer, in bytes.
	pageBytes = 256 << 10
	// noPage is a path that no platform has: what it answers is not about a page.
	noPage = "/gpuaasctl-asks-for-no-page"
)

// healthPages are the usual paths of a page that says whether a server is well, the most telling first.
var healthPages = [...]string{
	"/healthz", "/readyz", "/livez", "/health", "/api/health", "/api/healthz", "/v1/health", "/api/v1/health",
	"/webapi/ping", "/-/healthy", "/-/ready", "/actuator/health", "/_health", "/api/ping", "/ping", "/status", "/up",
}

// pages asks one server. roots nil are the system's.
type pages struct {
	base  *url.URL
	roots *x509.CertPool
}

// page is one answer.
type page struct {
	status int
	html   bool
	login  string // where an edge sends a browser that has not logged in
	fields map[string]any
}

// ask looks for the health page and for the kind of platform, and asks for the page about the node.
func (s *Server) ask(ctx context.Context, p pages, readModel string, token diag.Secret) {
	client := p.client()
	defer client.CloseIdleConnections()
	get := func(path string, token diag.Secret) (page, error) { return p.get(ctx, client, path, token) }
	none, err := get(noPage, diag.Secret{})
	if err != nil {
		s.Error = err.Error()
		return
	}
	if none.wantsLogin() {
		s.Login = none.login
	}
	for _, path := range healthPages {
		got, err := get(path, diag.Secret{})
		if err != nil {
			continue
		}
		s.Kind = kindOf(path, got, s.Kind)
		if s.Health == "" && got.healthPage(none) {
			s.Health = path
			if got.status >= 300 {
				s.HealthNow = fmt.Sprintf("it answers %d", got.status)
			}
		}
		if s.Health != "" && s.Kind != "" {
			break
		}
	}
	if s.Kind == "" {
		if got, err := get("/version", diag.Secret{}); err == nil {
			s.Kind = kindOf("/version", got, "")
		}
	}
	if readModel == "" || token.IsZero() {
		return
	}
	got, err := get(readModel, token)
	switch {
	case err != nil:
		s.ReadModel = err.Error()
	default:
		s.ReadModel = fmt.Sprintf("HTTP %d", got.status)
		s.HasNode = got.status == http.StatusOK && got.fields["id"] != nil
	}
}

// client returns a client that follows no redirect, and verifies the server.
func (p pages) client() *http.Client {
	return &http.Client{
		Timeout:       pageTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.roots}, TLSHandshakeTimeout: handshakeTime,
			MaxIdleConns: 1, MaxResponseHeaderBytes: 64 << 10},
	}
}

func (p pages) get(ctx context.Context, client *http.Client, path string, token diag.Secret) (page, error) {
	u := *p.base
	u.Path = strings.TrimRight(u.Path, "/") + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return page{}, err
	}
	req.Header.Set("Accept", "application/json, text/plain;q=0.9, */*;q=0.1")
	req.Header.Set("User-Agent", "gpuaasctl")
	if !token.IsZero() {
		req.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	resp, err := client.Do(req)
	if err != nil {
		return page{}, err
	}
	defer resp.Body.Close()
	body, err := bounded.Read(resp.Body, pageBytes)
	if err != nil {
		return page{}, err
	}
	got := page{status: resp.StatusCode}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	got.html = kind == "text/html" || kind == "application/xhtml+xml"
	if to, err := resp.Location(); err == nil {
		got.login = to.Hostname() + to.Path
	}
	_ = bounded.Unmarshal(body, &got.fields, bounded.Answer()) // most are no objects
	return got, nil
}

// wantsLogin reports whether an answer asks for a login in place of a page.
func (g *page) wantsLogin() bool {
	switch {
	case g.status >= 300 && g.status < 400 && g.login != "":
	case g.status == http.StatusUnauthorized, g.status == http.StatusForbidden:
		g.login = fmt.Sprintf("HTTP %d", g.status)
	default:
		return false
	}
	return true
}

// healthPage reports whether an answer is a health page's, given the answer to a page that does not exist. A server
// that answers every path alike has none that this could tell.
func (g *page) healthPage(none page) bool {
	switch {
	case g.html, none.status == g.status && none.html == g.html:
		return false
	case g.status == http.StatusOK, g.status == http.StatusNoContent:
		return true
	}
	return g.status == http.StatusServiceUnavailable
}

// kindOf returns the kind of platform that a page shows, or before.
func kindOf(path string, g page, before string) string {
	has := func(names ...string) bool {
		for _, name := range names {
			if _, is := g.fields[name].(string); !is {
				return false
			}
		}
		return g.status == http.StatusOK
	}
	switch {
	case path == "/version" && has("gitVersion", "major", "minor"):
		return profile.KindKubernetesNode
	case path == "/webapi/ping" && has("server_version", "cluster_name"):
		return profile.KindTeleportLike
	}
	return before
}
