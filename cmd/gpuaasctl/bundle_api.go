package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaasctl/preflight"
	"github.com/gpuaas/gpuaasctl/profile"
	"github.com/gpuaas/gpuaasctl/wire"
)

const (
	// bundleTimeout bounds the issue of a bundle: one exchange that writes an audit row.
	bundleTimeout = 10 * time.Second
	// maxBundle bounds what is read of one: two CA bundles and a few lines.
	maxBundle = 1 << 20
)

// errLost is an answer that did not come, or not whole, to a request that the platform may have carried out.
var errLost = errors.New("the platform's answer was lost, and it may have issued a token")

// errNoBundles is a platform that has no path to ask for a bundle, or a profile without an API.
var errNoBundles = errors.New("issue a recovery bundle: this platform has no node_reenroll path " +
	"(api_base, mapping.paths.node_reenroll)")

// issueBundle has the platform issue an audited recovery bundle for the job's node. Unlike everything that is measured
// it is kept whole, since it is carried to the node; it holds a token, so it must not be shown or logged.
//
// force insists while signing CA and ingress CA differ. Once the request may have arrived an error says that a token may be
// out, which nobody can take back from here: errLost.
func issueBundle(ctx context.Context, e *preflight.Env, reason string, force bool) (*wire.Bundle, error) {
	url := e.URL(profile.PathNodeReenroll)
	if url == "" {
		return nil, errNoBundles
	}
	body, err := json.Marshal(struct {
		Reason string `json:"reason"`
		By     string `json:"by"`
		Force  bool   `json:"force,omitempty"` // audited
	}{reason, operatorName(), force})
	if err != nil {
		return nil, fmt.Errorf("write the request for a bundle: %w", err)
	}
	client, err := operatorClient(e.Profile)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, bundleTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask for a bundle: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(wire.HeaderCorrelationID, e.CorrelationID)
	req.Header.Set("Authorization", "Bearer "+e.Token.Reveal())
	var sent atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}))
	resp, err := client.Do(req)
	switch {
	case err != nil && sent.Load():
		return nil, fmt.Errorf("ask for a bundle: %w: %w", errLost, err)
	case err != nil:
		return nil, fmt.Errorf("ask for a bundle: %w; no bundle was issued", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBundle))
	if err != nil {
		return nil, fmt.Errorf("read the bundle: %w: %w", errLost, err)
	}
	if resp.StatusCode >= http.StatusInternalServerError { // perhaps an edge's word on an answer that came too late
		return nil, fmt.Errorf("%w: HTTP %d", errLost, resp.StatusCode)
	}
	if resp.StatusCode != http.StatusOK {
		var refused wire.ErrorBody
		_ = json.Unmarshal(text, &refused) // what is no envelope says nothing more than its status
		return nil, fmt.Errorf("the platform issues no bundle: HTTP %d %s: %s", resp.StatusCode, refused.Error.Code, refused.Error.Message)
	}
	return readBundle(text, e.Subject.NodeID)
}

// readBundle checks what a bundle must have to be of use on node. Errors never quote it.
func readBundle(text []byte, node string) (*wire.Bundle, error) {
	b := &wire.Bundle{}
	if err := json.Unmarshal(text, b); err != nil {
		return nil, errors.New("the platform's answer is no bundle")
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

// operatorClient speaks to the API as a walk does: by the profile's bundle, at the profile's address.
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
	dial := (&net.Dialer{Timeout: bundleTimeout}).DialContext
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a token follows nobody
		Transport: &http.Transport{TLSClientConfig: config, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if _, port, err := net.SplitHostPort(address); err == nil && p.APIResolveAddress != "" {
				address = net.JoinHostPort(p.APIResolveAddress, port)
			}
			return dial(ctx, network, address)
		}},
	}, nil
}
