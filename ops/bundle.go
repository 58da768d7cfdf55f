package ops

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/profile"
)

// postTime bounds one request to the API that writes an audit row.
const postTime = 10 * time.Second

// errLost means that the answer to a request is missing or incomplete, although the platform may have executed it.
var errLost = errors.New("the platform's answer was lost, and it may have issued a token")

// errNoBundles means that the platform has no path for recovery bundles, or the profile no API.
var errNoBundles = errors.New("issue a recovery bundle: this platform has no node_reenroll path " +
	"(api_base, mapping.paths.node_reenroll)")

// issueBundle asks the platform for an audited recovery bundle for the session's node. Unlike a measurement, the answer
// is kept in full, since it is copied to the node. It contains a token, so it must not be shown or logged.
//
// force issues it even if signing CA and ingress CA differ. If the request may have arrived, the error is errLost:
// there may be a valid token, which cannot be revoked from here.
func (s *Session) issueBundle(ctx context.Context, reason string, force bool) (*wire.Bundle, error) {
	url := s.env.URL(profile.PathNodeReenroll)
	if url == "" {
		return nil, errNoBundles
	}
	status, text, sent, err := s.post(ctx, url, struct {
		Reason string `json:"reason"`
		By     string `json:"by"`
		Force  bool   `json:"force,omitempty"` // audited
	}{reason, s.site.By, force})
	switch {
	case err != nil && status != 0:
		return nil, fmt.Errorf("read the bundle: %w: %w", errLost, err)
	case err != nil && sent:
		return nil, fmt.Errorf("ask for a bundle: %w: %w", errLost, err)
	case err != nil:
		return nil, fmt.Errorf("ask for a bundle: %w; no bundle was issued", err)
	case status >= http.StatusInternalServerError: // perhaps an edge's status for an answer that came too late
		return nil, fmt.Errorf("%w: HTTP %d", errLost, status)
	case status != http.StatusOK:
		refused := refusal(text)
		return nil, fmt.Errorf("the platform issues no bundle: HTTP %d %s: %s", status, refused.Code, refused.Message)
	}
	return readBundle(text, s.of.Node)
}

// decide posts a decision that a drill's recovery needs from an operator.
func (s *Session) decide(ctx context.Context, d chaos.Decision) error {
	url := strings.TrimRight(s.site.Profile.APIBase, "/") + d.Path
	status, text, _, err := s.post(ctx, url, map[string]string{"reason": d.Reason, "by": s.site.By})
	if status == 0 {
		return err
	}
	if status/100 == 2 {
		return nil
	}
	refused := refusal(text)
	return fmt.Errorf("HTTP %d %s %s", status, refused.Code, refused.Message)
}

// post sends one request to the API in the operator's name, once. sent reports whether it may have arrived; status 0
// means no answer.
func (s *Session) post(ctx context.Context, url string, body any) (status int, text []byte, sent bool, err error) {
	data, err := json.Marshal(body)
	if err != nil {
		return 0, nil, false, err
	}
	client, err := operatorClient(s.site.Profile)
	if err != nil {
		return 0, nil, false, err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, postTime)
	defer cancel()
	var wrote atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		return 0, nil, false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(wire.HeaderCorrelationID, s.env.CorrelationID)
	req.Header.Set("Authorization", "Bearer "+s.env.Token.Reveal())
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, wrote.Load(), err
	}
	defer resp.Body.Close()
	text, err = bounded.Read(resp.Body, bounded.Answer().Bytes)
	return resp.StatusCode, text, true, err
}

// refusal returns the error envelope of a refused request, zero if the answer has none.
func refusal(text []byte) (e struct{ Code, Message string }) {
	var body wire.ErrorBody
	_ = bounded.Unmarshal(text, &body, bounded.Small())
	e.Code, e.Message = body.Error.Code, body.Error.Message
	return e
}

// readBundle checks that a bundle has everything that node needs. Errors never quote it.
func readBundle(text []byte, node string) (*wire.Bundle, error) {
	b := &wire.Bundle{}
	if err := bounded.Unmarshal(text, b, bounded.Answer()); err != nil {
		return nil, errors.New("the platform's answer is not a bundle")
	}
	for _, f := range [...]struct{ name, value string }{
		{"node_id", b.NodeID}, {"token", b.Token}, {"api_url", b.APIURL}, {"ca_bundle", b.CABundle},
	} {
		if f.value == "" {
			return nil, fmt.Errorf("the bundle lacks %s", f.name)
		}
	}
	if b.NodeID != node {
		return nil, fmt.Errorf("the bundle is for %s, not for %s", b.NodeID, node)
	}
	return b, nil
}

// operatorClient returns a client that connects to the API as a walk does: with the profile's CA bundle, to the
// profile's address.
func operatorClient(p profile.Profile) (*http.Client, error) {
	if p.APIBase == "" {
		return nil, errors.New("the profile gives no api_base")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.Trust.OperatorCA != "" {
		text, err := profile.ReadOwn(p.Trust.OperatorCA)
		if err != nil {
			return nil, fmt.Errorf("trust.operator_ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("trust.operator_ca: no certificate in %s", p.Trust.OperatorCA)
		}
	}
	plain := !strings.HasPrefix(strings.ToLower(p.APIBase), "https://")
	dial := (&net.Dialer{Timeout: postTime}).DialContext
	return &http.Client{
		// a token must not follow a redirect
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{TLSClientConfig: config, DialContext: func(ctx context.Context, network, address string) (
			net.Conn, error,
		) {
			if _, port, err := net.SplitHostPort(address); err == nil && p.APIResolveAddress != "" {
				address = net.JoinHostPort(p.APIResolveAddress, port)
			}
			conn, err := dial(ctx, network, address)
			if err != nil || !plain || p.InsecureHTTP {
				return conn, err
			}
			if peer, ok := conn.RemoteAddr().(*net.TCPAddr); !ok || !peer.IP.IsLoopback() {
				return nil, errors.Join(fmt.Errorf("http:// would show the token to anybody on the way to %s: use https://, or "+
					"set insecure_http: true in the profile", conn.RemoteAddr()), conn.Close())
			}
			return conn, nil
		}},
	}, nil
}
