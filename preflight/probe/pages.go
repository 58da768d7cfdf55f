package probe

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// The known pages, as HTTPFacts.Page has them.
const (
	PageSSLError  = "ssl_certificate_error" // nginx: the client certificate did not verify
	PageNoSSLCert = "no_ssl_certificate"    // nginx: no client certificate was sent
	PageEdgeLogin = "edge_login"            // an edge asks for a login
	PageEdgeError = "edge_error"            // an edge's own error page, not the API's answer

	PageRateLimit = string(diag.LimiterEdgePage)  // an edge's own page of its limiter
	PageChallenge = string(diag.LimiterChallenge) // an edge wants a captcha or a script solved
)

// judgePage classifies an answer: the platform's, or that of an edge in front of it. json: fields of a JSON answer
// were requested; code is the error's code. OK is every 2xx, and a redirect that is not to a login: the hop's judge
// decides whether the status is the expected one.
func judgePage(resp *http.Response, body []byte, json bool, code string) (page string, word diag.Failure) {
	if p := nginxSSLPage(resp.StatusCode, body); p != "" {
		return p, diag.MTLSIngress400
	}
	limiter := diag.LimitedBy(diag.Refusal{Status: resp.StatusCode, Header: resp.Header.Get, Code: code, Body: body})
	switch {
	case limiter == diag.LimiterRate:
		return "", diag.HTTPRateLimited
	case limiter != diag.NoLimiter:
		return string(limiter), diag.HTTPRateLimited
	case loginWanted(resp, body, json):
		return PageEdgeLogin, diag.HTTPEdgeAuth
	case resp.StatusCode < 400:
		return "", diag.OK
	case edgeError(resp, body):
		return PageEdgeError, diag.HTTPEdgePage
	}
	return "", diag.HTTPStatus
}

// nginxSSLPage knows nginx's two answers to a client without a good certificate. They come with 400; 495 and 496 are
// nginx's inner numbers, which an error_page rule may let out.
func nginxSSLPage(status int, body []byte) string {
	switch status {
	case http.StatusBadRequest, 495, 496:
	default:
		return ""
	}
	switch {
	case bytes.Contains(body, []byte("The SSL certificate error")):
		return PageSSLError
	case bytes.Contains(body, []byte("No required SSL certificate was sent")):
		return PageNoSSLCert
	}
	return ""
}

// loginPaths are parts of the places where edges send a user to log in.
var loginPaths = [...]string{
	"/login", "/signin", "/sign_in", "/sign-in", "/authorize", "/oauth2/", "/oauth/", "/oidc/", "/saml",
	"/.pomerium/", "/cdn-cgi/access/", "/openid-connect/", "/dex/auth",
}

// loginMarks are parts of the pages on which a user logs in.
var loginMarks = [...]string{
	`type="password"`, `type='password'`, "type=password", "cloudflareaccess.com", "/cdn-cgi/access/", "/.pomerium/",
	"pomerium",
}

func loginWanted(resp *http.Response, body []byte, json bool) bool {
	html := isHTML(resp)
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		u, err := resp.Location()
		if err != nil {
			return false
		}
		return strings.HasSuffix(u.Hostname(), ".cloudflareaccess.com") ||
			containsAny(strings.ToLower(u.Path)+"/", loginPaths[:])
	case http.StatusProxyAuthRequired, http.StatusNetworkAuthenticationRequired: // by definition of what is on the way
		return true
	case http.StatusUnauthorized:
		return html
	case http.StatusForbidden:
		return html && containsAny(strings.ToLower(string(body)), loginMarks[:])
	}
	// An edge that serves its login with 200 where an API was asked.
	return json && html && resp.StatusCode < 300 && containsAny(strings.ToLower(string(body)), loginMarks[:])
}

// edgeMarks are parts of the error pages of common proxies: nginx, Apache, HAProxy, Envoy, Caddy's and Go's have none,
// Cloudflare is known by its header. Lower case.
var edgeMarks = [...]string{
	"<center>nginx", "<center>openresty", "no server is available to handle this request",
	"upstream connect error or disconnect/reset before headers", "<address>apache", "error code: 10", "cf-error-details",
	"cloudflare ray id",
}

func edgeError(resp *http.Response, body []byte) bool {
	if isJSON(resp) {
		return false
	}
	if resp.Header.Get("Cf-Mitigated") != "" {
		return true
	}
	if isHTML(resp) && strings.EqualFold(resp.Header.Get("Server"), "cloudflare") && resp.StatusCode >= 500 {
		return true
	}
	return containsAny(strings.ToLower(string(body)), edgeMarks[:])
}

func isJSON(resp *http.Response) bool {
	return strings.Contains(resp.Header.Get("Content-Type"), "json")
}

func isHTML(resp *http.Response) bool {
	return strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "text/html")
}

func containsAny(s string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}
