package platformtest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Titles of nginx's error pages for client certificates.
const (
	titleCertError = "The SSL certificate error"
	titleNoCert    = "No required SSL certificate was sent"
)

// Front is a TLS listener in front of one of the platform's plain ones, in place of nginx. A public edge requests
// no client certificate. A node ingress behaves like nginx: every handshake succeeds, then a bad certificate gets
// HTTP 400 with one page, and a missing one gets 400 with another page, except for an enrollment.
type Front struct {
	URL string

	certPEM []byte
	proxy   *httputil.ReverseProxy
	secret  diag.Secret // of a node ingress, for the platform; set before the first request

	mu        sync.Mutex
	ingress   bool
	trust     *x509.CertPool                                // guarded by mu
	intercept func(http.ResponseWriter, *http.Request) bool // guarded by mu
	watch     func(*http.Request)                           // guarded by mu
}

// newFront starts a front; with a clientCA it is a node ingress that trusts it.
func (p *Platform) newFront(name, backend string, clientCA []byte) *Front {
	tb := p.tb
	tb.Helper()
	pair, cert := serverPair(tb, p.ca, "gpuaas test front")
	f := &Front{certPEM: cert, proxy: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: backend})}
	// The platform closes an idle connection after a minute; a POST on a connection that closes at that moment
	// would get a 502.
	transport := &http.Transport{IdleConnTimeout: 10 * time.Second}
	f.proxy.Transport, f.proxy.FlushInterval, f.proxy.ErrorLog = transport, -1, log.New(io.Discard, "", 0)
	f.proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) {
		page(w, http.StatusBadGateway, "502 Bad Gateway", "")
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"}}
	if clientCA != nil {
		f.ingress = true
		f.Trust(clientCA)
		cfg.ClientAuth = tls.RequestClientCert // nothing is judged in TLS
		cfg.ClientCAs = f.trust                // only named to the client
	}
	s := httptest.NewUnstartedServer(f)
	s.TLS, s.Listener = cfg, p.haltable(name, s.Listener)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	f.URL = s.URL
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		transport.CloseIdleConnections()
	})
	return f
}

// Trust replaces the CAs whose client certificates a node ingress accepts.
func (f *Front) Trust(caPEM []byte) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(caPEM)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trust = pool
}

// Intercept lets a test respond in place of the platform: h returns true for a request that it has handled. nil
// ends it.
func (f *Front) Intercept(h func(http.ResponseWriter, *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.intercept = h
}

// Forward passes a request of a public edge on to the platform, for a handler of Intercept.
func (f *Front) Forward(w http.ResponseWriter, r *http.Request) { f.proxy.ServeHTTP(w, r) }

// Watch shows a test every request before it is handled, even one with a rejected certificate. nil ends it.
func (f *Front) Watch(see func(*http.Request)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = see
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	trust, intercept, watch := f.trust, f.intercept, f.watch
	f.mu.Unlock()
	if watch != nil {
		watch(r)
	}
	r.Header.Del(wire.HeaderClientVerify)
	r.Header.Del(wire.HeaderClientCert)
	r.Header.Del(wire.HeaderIngress)
	if f.ingress && !clientCert(w, r, trust) {
		return
	}
	if intercept != nil && intercept(w, r) {
		return
	}
	if f.ingress {
		r.Header.Set(wire.HeaderIngress, f.secret.Reveal())
	}
	f.proxy.ServeHTTP(w, r)
}

// clientCert judges the client certificate like nginx with ssl_verify_client; it returns false if it has sent the
// response.
func clientCert(w http.ResponseWriter, r *http.Request, trust *x509.CertPool) bool {
	certs := r.TLS.PeerCertificates
	if len(certs) == 0 {
		r.Header.Set(wire.HeaderClientVerify, "NONE")
		if r.URL.Path == wire.PathEnroll {
			return true
		}
		page(w, http.StatusBadRequest, "400 Bad Request", titleNoCert)
		return false
	}
	between := x509.NewCertPool()
	for _, c := range certs[1:] {
		between.AddCert(c)
	}
	_, err := certs[0].Verify(x509.VerifyOptions{Roots: trust, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		page(w, http.StatusBadRequest, "400 Bad Request", titleCertError)
		return false
	}
	r.Header.Set(wire.HeaderClientVerify, "SUCCESS")
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certs[0].Raw}))
	r.Header.Set(wire.HeaderClientCert, strings.ReplaceAll(url.QueryEscape(text), "+", "%20"))
	return true
}

// page returns an error page in nginx's wording and format.
func page(w http.ResponseWriter, status int, heading, text string) {
	title, line := heading, ""
	if text != "" {
		title, line = fmt.Sprintf("%d %s", status, text), fmt.Sprintf("<center>%s</center>\r\n", text)
	}
	body := fmt.Sprintf(
		"<html>\r\n<head><title>%s</title></head>\r\n<body>\r\n"+
			"<center><h1>%s</h1></center>\r\n%s<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n",
		title, heading, line)
	h := w.Header()
	h.Set("Server", "nginx/1.22.1")
	h.Set("Content-Type", "text/html")
	h.Set("Connection", "close")
	h.Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
