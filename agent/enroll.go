package agent

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net/http"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/wire"
)

// enroll asks for a certificate with the node-bound token and keeps what comes back. The key is made here and never
// leaves this node.
func enroll(ctx context.Context, cfg Config, creds credentials, instance string) Outcome {
	csr, err := certificateRequest(cfg.NodeID, creds)
	if err != nil {
		return Outcome{Reason: diag.RecCertMissing, Failure: diag.FileUnreadable, Detail: scrubbed(err)}
	}
	var answer wire.EnrollResponse
	a := newAPI(cfg, creds, true)
	defer a.transport.CloseIdleConnections()
	o := a.do(ctx, call{method: http.MethodPost, path: wire.PathEnroll, token: cfg.Token, out: &answer,
		in:      wire.EnrollRequest{NodeID: cfg.NodeID, NodeInstanceID: instance, CSR: csr},
		timeout: enrollTimeout, fallback: diag.RecRecoveryEnrollmentBlocked})
	if !o.OK() {
		return o
	}
	if err := usable(answer, creds); err != nil {
		o.Reason, o.Failure, o.Detail = diag.RecRecoveryEnrollmentBlocked, diag.FileMismatch, scrubbed(err)
		return o
	}
	if err := creds.store(answer.Certificate, answer.CABundle, answer.Generation); err != nil {
		o.Reason, o.Failure, o.Detail = diag.RecCertMissing, diag.FileUnreadable, scrubbed(err)
		return o
	}
	o.Detail = "generation " + fmt.Sprint(answer.Generation)
	if answer.APIURL != "" && answer.APIURL != cfg.APIURL.String() {
		o.Detail += ", the platform names another API URL: " + answer.APIURL
	}
	return o
}

// certificateRequest gives the request in PEM.
func certificateRequest(node string, creds credentials) (string, error) {
	key, err := creds.ensureKey()
	if err != nil {
		return "", err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: node}}, key)
	if err != nil {
		return "", fmt.Errorf("make a certificate request: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), nil
}

// usable checks what an enrollment brought before anything on disk is replaced by it.
func usable(answer wire.EnrollResponse, creds credentials) error {
	block, _ := pem.Decode([]byte(answer.Certificate))
	if block == nil {
		return fmt.Errorf("the platform's answer holds no certificate")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("the platform's certificate: %w", err)
	}
	key, err := creds.ensureKey()
	if err != nil {
		return err
	}
	if !key.PublicKey.Equal(leaf.PublicKey) {
		return fmt.Errorf("the platform's certificate is for another key")
	}
	if answer.CABundle != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(answer.CABundle)) {
		return fmt.Errorf("the platform's trust bundle holds no certificate")
	}
	return nil
}
