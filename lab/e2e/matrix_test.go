//go:build linux

package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/golden"
	"github.com/gpuaas/gpuaasctl/lab"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
)

// matrixPatience bounds the wait for a row's evidence: a stale heartbeat, a few attempts of the agent.
const matrixPatience = 40 * time.Second

// TestMatrix creates the failure matrix's rows on new machines, one after the other, and runs the classifier. With
// GPUAASCTL_UPDATE_GOLDEN it stores the reports that golden/matrix judges from then on. Every row begins with a
// new lab, so that it can break anything.
func TestMatrix(t *testing.T) {
	if os.Getenv("GPUAASCTL_MATRIX_TESTS") == "" {
		t.Skip("skipped: needs GPUAASCTL_MATRIX_TESTS=1, since it takes the lab down again and again")
	}
	for _, want := range golden.Matrix() {
		do, ok := matrixFaults()[want.Scenario]
		if !ok {
			continue
		}
		t.Run(want.Scenario, func(t *testing.T) {
			l := freshLab(t)
			do(t, l)
			var r *diag.Report
			var written []byte
			var problems []string
			for began := time.Now(); time.Since(began) < matrixPatience; time.Sleep(300 * time.Millisecond) {
				r, _, written = walk(t, node, "--run-ws-smoke=false")
				problems = want.Check(want.Classify(r))
				if s, blamed := golden.Supports()["matrix/"+want.Scenario+".json"]; blamed {
					if why := s.Check(r, r.Run.RulesVersion); why != "" {
						problems = append(problems, why)
					}
				}
				if len(problems) == 0 {
					keepMatrix(t, l, want.Scenario, written)
					return
				}
			}
			why, _ := json.MarshalIndent(r.Classification, "", "  ")
			t.Errorf("%s\n%s%s", strings.Join(problems, "\n"), describe(r), why)
		})
	}
}

// freshLab removes the lab and sets up a new one.
func freshLab(t *testing.T) *lab.Lab {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
	alone(t)
	run(t, 5*time.Minute, "lab", "down")
	run(t, 5*time.Minute, "lab", "up")
	l, err := lab.Open(lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	green(t, node)
	return l
}

func keepMatrix(t *testing.T, l *lab.Lab, name string, written []byte) {
	t.Helper()
	noSecrets(t, l, written)
	if !goldentest.Writing() {
		return
	}
	written = bytes.ReplaceAll(written, []byte(secretsDir(t, l)), []byte("/lab"))
	if err := os.WriteFile(filepath.Join("..", "..", "golden", "matrix", name+".json"), written, 0o644); err != nil {
		t.Fatal(err)
	}
}

// api calls the platform from its own machine, and returns the answer.
func api(t *testing.T, l *lab.Lab, path, body string) map[string]any {
	t.Helper()
	out := on(t, l, platform,
		`curl -sSf -X POST -H "Authorization: Bearer $(cat /etc/gpuaas-platform/operator.token)" -H 'Content-Type: application/json' -d '`+
			body+`' http://127.0.0.1:8080`+path)
	var answer map[string]any
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, out)
	}
	return answer
}

const (
	stopAgent    = "systemctl stop gpuaas-node-agent"
	restartAgent = "systemctl restart gpuaas-node-agent"
	useMaterial  = "cat /root/cert.pem >/etc/gpuaas/cert.pem; cat /root/key.pem >/etc/gpuaas/key.pem"
	noToken      = "sed -i /^GPUAAS_ENROLLMENT_TOKEN/d /etc/gpuaas/agent.env"
	otherBundle  = "cat /root/stale.crt >/etc/gpuaas/ca-bundle.crt"
	adminNode    = "/v1/admin/nodes/" + node
)

// giveToken has the platform issue a recovery token, and puts it where the agent reads it.
func giveToken(t *testing.T, l *lab.Lab) {
	t.Helper()
	token, _ := api(t, l, adminNode+"/reenroll", `{"reason":"matrix"}`)["token"].(string)
	if token == "" {
		t.Fatal("no token in the bundle")
	}
	on(t, l, node, noToken+"; echo GPUAAS_ENROLLMENT_TOKEN="+token+" >>/etc/gpuaas/agent.env")
}

// setPolicy edits the platform's policy and restarts it.
func setPolicy(t *testing.T, l *lab.Lab, key, value string) {
	t.Helper()
	on(t, l, platform, "sed -i '/^  "+key+":/d; s/^policy:/policy:\\n  "+key+": "+value+
		"/' /etc/gpuaas-platform/platform.yaml; "+restartPlatform)
}

// foreignCert mints a valid certificate of this node by a CA that is unknown here.
func foreignCert(t *testing.T, l *lab.Lab) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "another environment's node CA"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(4712), Subject: pkix.Name{CommonName: node}, DNSNames: []string{node},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, l, "/root/cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	put(t, l, "/root/key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// matrixFaults creates the rows, manually and with the machines' own tools. Rows that are missing here cannot be
// created on a lab, or are in golden/reports.
func matrixFaults() map[string]func(*testing.T, *lab.Lab) {
	return map[string]func(*testing.T, *lab.Lab){
		"long_outage_beyond_cert_expiry": func(t *testing.T, l *lab.Lab) {
			expiredCert(t, l, node)
			giveToken(t, l)
			on(t, l, node, stopAgent+"; "+useMaterial) // just back, before the agent has begun
		},
		"identity_rejected_after_profile_change": func(t *testing.T, l *lab.Lab) {
			foreignCert(t, l)
			giveToken(t, l)
			// Delay the enrollment: otherwise the agent would recover before the walk.
			on(t, l, platform,
				"sed -i 's,location = /internal/v1/enroll { .*,location = /internal/v1/enroll { return 503; },' "+
					"/etc/nginx/node-ingress.d/node-api.conf; "+restartNginx)
			on(t, l, node, useMaterial+"; "+restartAgent)
		},
		"control_plane_outage": func(t *testing.T, l *lab.Lab) { on(t, l, platform, "systemctl stop gpuaas-platform") },
		"control_plane_ca_restart_drift": func(t *testing.T, l *lab.Lab) {
			giveToken(t, l)
			on(t, l, platform,
				`cd /etc/gpuaas-platform; crt=$(sed -n 's/^ *signing_ca_cert: *//p' platform.yaml); key=$(sed -n 's/^ *signing_ca_key: *//p' platform.yaml)
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /root/ca.key -out /root/ca.crt -subj '/CN=GPUaaS node signing CA, made at a restart' -days 2 2>/dev/null
cat /root/ca.crt >$crt; cat /root/ca.key >$key; `+restartPlatform)
			on(t, l, node, stopAgent+
				"; rm -rf /etc/gpuaas/cert.pem /etc/gpuaas/key.pem /etc/gpuaas/current /etc/gpuaas/generations; cat "+
				"/etc/gpuaas/recovery-ca.crt >/root/b; rm -f /etc/gpuaas/ca-bundle.crt; cp /root/b /etc/gpuaas/ca-bundle.crt; "+
				"systemctl start gpuaas-node-agent")
		},
		"trust_bundle_drift": func(t *testing.T, l *lab.Lab) {
			staleBundle(t, l, node)
			on(t, l, node, otherBundle+"; "+restartAgent)
		},
		"pre_auth_blind_spot": func(t *testing.T, l *lab.Lab) {
			staleBundle(t, l, node)
			on(t, l, node, otherBundle+"; "+restartAgent)
		},
		"trust_drift_blocks_recovery_enrollment": func(t *testing.T, l *lab.Lab) {
			staleBundle(t, l, node)
			expiredCert(t, l, node)
			giveToken(t, l)
			on(t, l, node, otherBundle+"; cat /root/stale.crt >/etc/gpuaas/recovery-ca.crt; "+useMaterial+"; "+restartAgent)
		},
		"recovery_token_missing": func(t *testing.T, l *lab.Lab) {
			expiredCert(t, l, node)
			on(t, l, node, noToken+"; "+useMaterial+"; "+restartAgent)
		},
		"identity_revoked_or_fenced": func(t *testing.T, l *lab.Lab) { api(t, l, adminNode+"/fence", `{"reason":"matrix"}`) },
		"cloned_vm_identity": func(t *testing.T, l *lab.Lab) {
			image := on(t, l, node, "tar -C /etc -cz gpuaas | base64 -w0")
			if _, err := base64.StdEncoding.DecodeString(strings.TrimSpace(image)); err != nil {
				t.Fatal(err)
			}
			writeFile(t, l, "compute-node-02", "/root/image", []byte(image), 0o600)
			on(t, l, "compute-node-02",
				stopAgent+"; rm -rf /etc/gpuaas/*; base64 -d </root/image | tar -C /etc -xz; systemctl start gpuaas-node-agent")
		},
		"ip_route_drift": func(t *testing.T, l *lab.Lab) {
			on(t, l, node, "ip addr del 10.231.77.101/24 dev host0; ip addr add 10.231.77.150/24 dev host0; "+restartAgent)
		},
		"task_backlog_after_outage": func(t *testing.T, l *lab.Lab) {
			setPolicy(t, l, "node.task_stale_sweep_interval_seconds", "600")
			on(t, l, node, stopAgent)
			for range 2 {
				api(t, l, adminNode+"/tasks", `{"type":"noop","payload":{},"ttl_seconds":1}`)
			}
			time.Sleep(1500 * time.Millisecond)
			on(t, l, node, "systemctl start gpuaas-node-agent")
		},
		"dispatched_result_lost": func(t *testing.T, l *lab.Lab) {
			setPolicy(t, l, "node.task_stale_sweep_interval_seconds", "600")
			setPolicy(t, l, "node.task_lease_seconds", "2")
			green(t, node)
			api(t, l, adminNode+"/tasks", `{"type":"noop","payload":{"hold_ms":60000},"ttl_seconds":300}`)
			time.Sleep(time.Second)
			on(t, l, node, "systemctl kill -s KILL gpuaas-node-agent; sleep 4; systemctl start gpuaas-node-agent")
		},
		"app_status_probe_expires": func(t *testing.T, l *lab.Lab) {
			on(t, l, node, "p=$(systemctl show -P MainPID gpuaas-node-agent); kill -STOP $p; sleep 25; kill -CONT $p")
		},
		"app_recovered_after_false_unhealthy": func(t *testing.T, l *lab.Lab) {
			on(t, l, node, "systemctl stop gpuaas-app-alloc-01; sleep 13; systemctl start gpuaas-app-alloc-01")
		},
		"app_token_fails": func(t *testing.T, l *lab.Lab) {
			for range 3 {
				api(t, l, "/v1/admin/allocations/alloc-01/credential-report",
					`{"credential_id":"cred-01","healthy":false,"reason":"upstream_auth_rejected"}`)
			}
		},
		"node_agent_version_drift": func(t *testing.T, l *lab.Lab) { setPolicy(t, l, "agent.desired_version", "v99.0.0") },
	}
}
