package platform_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/http"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
)

// csr makes a certificate request.
func csr(t *testing.T, cn string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: cn}},
		key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// forged changes a request's signature.
func forged(t *testing.T, request string) string {
	t.Helper()
	block, _ := pem.Decode([]byte(request))
	if block == nil {
		t.Fatal("no request")
	}
	block.Bytes[len(block.Bytes)-1] ^= 1
	return string(pem.EncodeToMemory(block))
}

func TestEnroll(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t,
		platformtest.Options{Now: clk.now, Nodes: []platform.SeedNode{{ID: platformtest.NodeID}, {ID: "compute-node-02"}}})
	token := p.EnrollmentToken(platformtest.NodeID).Reveal()
	enroll := func(token, nodeID, request string) (int, string, wire.EnrollResponse) {
		t.Helper()
		var out struct {
			wire.EnrollResponse
			wire.ErrorBody
		}
		resp := post(t, p, p.NodeAPIURL+wire.PathEnroll, token,
			wire.EnrollRequest{NodeID: nodeID, NodeInstanceID: "i", CSR: request}, &out)
		return resp, out.Error.Code, out.EnrollResponse
	}
	broken := forged(t, csr(t, ""))
	for _, c := range []struct {
		name, token, node, csr string
		status                 int
		code                   string
	}{
		{"no token", "", platformtest.NodeID, csr(t, ""), 401, "unauthorized"},
		{"unknown token", "x", platformtest.NodeID, csr(t, ""), 401, "unauthorized"},
		{"another node's token", token, "compute-node-02", csr(t, ""), 403, wire.DenyNotNodeBound},
		{"another node's name", token, platformtest.NodeID, csr(t, "compute-node-02"), 403, wire.DenyNotNodeBound},
		{"no request", token, platformtest.NodeID, "", 400, "csr_invalid"},
		{"broken request", token, platformtest.NodeID, broken, 400, "csr_invalid"},
	} {
		if status, code, _ := enroll(c.token, c.node, c.csr); status != c.status || code != c.code {
			t.Errorf("%s: %d %s, want %d %s", c.name, status, code, c.status, c.code)
		}
	}
	request := csr(t, platformtest.NodeID)
	status, _, first := enroll(token, platformtest.NodeID, request)
	if status != 200 || first.Generation != 1 || first.CABundle != p.CAPEM || first.APIURL != p.NodeAPIURL ||
		first.TerminalURL != p.NodeTerminalURL {
		t.Fatalf("enroll: %d %+v", status, first)
	}
	block, _ := pem.Decode([]byte(first.Certificate))
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil || leaf.Subject.CommonName != platformtest.NodeID || len(leaf.URIs) != 1 ||
		leaf.URIs[0].String() != "gpuaas:node:"+platformtest.NodeID ||
		leaf.DNSNames[0] != platformtest.NodeID {
		t.Fatalf("certificate %+v %v", leaf, err)
	}
	if n := readNode(t, p); n.Cert.Serial != leaf.SerialNumber.Text(16) || n.Cert.Generation != 1 {
		t.Errorf("read model %+v", n.Cert)
	}
	if status, _, again := enroll(token, platformtest.NodeID, request); status != 200 || again.Generation != 2 {
		t.Errorf("the same key again, at once: %d generation %d", status, again.Generation)
	}
	if status, code, _ := enroll(token, platformtest.NodeID, csr(t, "")); status != 401 || code != wire.DenyTokenConsumed {
		t.Errorf("another key: %d %s", status, code)
	}
	clk.advance(5 * time.Minute)
	if status, code, _ := enroll(token, platformtest.NodeID, request); status != 401 || code != wire.DenyTokenConsumed {
		t.Errorf("the same key, later: %d %s", status, code)
	}
	reenroll(t, p, enroll)
	clk.advance(2 * time.Hour)
	if status, code, _ := enroll(p.EnrollmentToken("compute-node-02").Reveal(), "compute-node-02",
		csr(t, "")); status != 401 || code != wire.DenyTokenExpired {
		t.Errorf("old token: %d %s", status, code)
	}
}

// reenroll issues a bundle and uses it.
func reenroll(t *testing.T, p *platformtest.Platform,
	enroll func(string, string, string) (int, string, wire.EnrollResponse)) {
	t.Helper()
	var bundle struct {
		Token       string
		CABundle    string `json:"ca_bundle"`
		APIURL      string `json:"api_url"`
		TerminalURL string `json:"terminal_url"`
	}
	status, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+platformtest.NodeID+"/reenroll",
		map[string]string{"reason": "test"}, &bundle, wire.HeaderCorrelationID, correlationID)
	if status != 200 || bundle.CABundle != p.CAPEM || bundle.APIURL != p.NodeAPIURL ||
		bundle.TerminalURL != p.NodeTerminalURL {
		t.Fatalf("bundle: %d %+v", status, bundle)
	}
	if status, code, out := enroll(bundle.Token, platformtest.NodeID, csr(t, "")); status != 200 || out.Generation != 3 {
		t.Errorf("re-enroll: %d %s generation %d", status, code, out.Generation)
	}
	wantEvidence(t, p, correlationID, "node.reenroll_issued")
	if n := readNode(t, p); n.LatestOperation.Type != "reenroll" {
		t.Errorf("latest operation %+v", n.LatestOperation)
	}
}
