package net

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// The known pages, as in HTTPFacts.Page.
const (
	PageSSLError  = "ssl_certificate_error" // nginx: the client certificate did not verify
	PageNoSSLCert = "no_ssl_certificate"    // nginx: no client certificate was sent
	PageEdgeLogin = "edge_login"            // an edge's login page
	PageEdgeError = "edge_error"            // an edge's own error page, not the API's answer

	PageRateLimit = string(diag.LimiterEdgePage)  // the page of an edge's rate limiter
	PageChallenge = string(diag.LimiterChallenge) // an edge's captcha or script challenge
)

// judgePage tells an answer of the platform from one of an edge in front of it. json: fields of a JSON answer were
// requested; code is the error's code. The failure is OK for every 2xx, and for a redirect that is not to a login: the
// hop's judge decides whether the status is the expected one.
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
	}
	if name, _ := edgeOf(resp, body); name != "" {
		return PageEdgeError, diag.HTTPEdgePage
	}
	return "", diag.HTTPStatus
}

// nginxSSLPage recognizes nginx's two answers to a client without a valid certificate. They have status 400; 495 and
// 496 are nginx's internal codes, which an error_page rule may expose.
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

// loginPaths are parts of the URLs of edges' login pages.
var loginPaths = [...]string{
	"/login", "/signin", "/sign_in", "/sign-in", "/authorize", "/oauth2/", "/oauth/", "/oidc/", "/saml",
	"/.pomerium/", "/cdn-cgi/access/", "/openid-connect/", "/dex/auth",
}

// loginMarks are parts of login pages.
var loginMarks = [...]string{
	`type="password"`, `type='password'`, "type=password", "cloudflareaccess.com", "/cdn-cgi/access/", "/.pomerium/",
	"pomerium", "/oauth2/start", "/outpost.goauthentik.io/",
}

// pageOf returns the name of the edge whose own page an answer is, and what it says; "" if it is not known.
func pageOf(page string, resp *http.Response, body []byte) (name, says string) {
	switch page {
	case PageEdgeError:
		return edgeOf(resp, body)
	case PageEdgeLogin:
		if u, err := resp.Location(); err == nil {
			name, _ = loginAsked(u)
		}
	}
	return name, ""
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
		_, asked := loginAsked(u)
		return asked
	// these statuses come from a proxy by definition
	case http.StatusProxyAuthRequired, http.StatusNetworkAuthenticationRequired:
		return true
	case http.StatusUnauthorized:
		return html
	case http.StatusForbidden:
		return html && measure.ContainsAny(strings.ToLower(string(body)), loginMarks[:])
	}
	// An edge that serves its login page with 200 for an API request.
	return json && html && resp.StatusCode < 300 && measure.ContainsAny(strings.ToLower(string(body)), loginMarks[:])
}

func isJSON(resp *http.Response) bool {
	return strings.Contains(strings.ToLower(resp.Header.Get("Content-Type")), "json")
}

func isHTML(resp *http.Response) bool {
	return strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "text/html")
}
