//go:build linux

package e2e

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// controlPlaneFaults affect every node, so they run one after the other. The first node has a current recovery
// token, the second one has none: the fault tempts only the first into an enrollment, which cannot help.
var controlPlaneFaults = []struct {
	name string
	run  func(with, without *trial)
}{
	{"the ingress trusts another CA", ingressDrift},
	{"the platform came back with another signing CA", signingDrift},
	{"two machines with one identity", clonedIdentity},
	{"the platform is gone for longer than a certificate lives", longOutage},
	{"the ingress limits the rate", rateLimited},
}

// TestRecoveryOfTheControlPlane breaks what all nodes depend on.
func TestRecoveryOfTheControlPlane(t *testing.T) {
	l := needLab(t)
	for _, fault := range controlPlaneFaults {
		t.Run(fault.name, func(t *testing.T) {
			with, without := begin(t, l, node), begin(t, l, "compute-node-02")
			with.giveToken()
			without.dropToken()
			fault.run(with, without)
		})
	}
}

// broken injects a fault on a machine, and returns its undo, which runs at the end of the test at the latest.
func broken(c *trial, machine, do, undo string) (repair func()) {
	c.t.Helper()
	done := false
	repair = func() {
		if !done {
			done = true
			on(c.t, c.l, machine, undo)
			c.step("repaired")
		}
	}
	c.t.Cleanup(repair)
	on(c.t, c.l, machine, do)
	return repair
}

// mistrusted is the expected verdict for every node whose certificate's CA the ingress does not accept.
var mistrusted = verdict{diag.ReasonCertUntrustedByIngress, diag.UserOperator, diag.P0}

// refusedReenroll: re-enrolling is refused while the control plane disagrees with itself.
func refusedReenroll(c *trial) {
	c.t.Helper()
	_, stderr, code := try(c.t, 2*time.Minute, "node", "reenroll", c.node, "--profile", "lab", "--reason",
		"recovery suite", "--apply", "--confirm", c.node)
	if code != 3 || !strings.Contains(string(stderr), "control plane") {
		c.t.Errorf("node reenroll: exit %d: %s", code, stderr)
	}
}

// ingressDrift: the agent tries one enrollment, whose certificate is rejected like the previous one, and stops
// there. Once the ingress is repaired, both certificates are good, and both nodes recover by themselves.
func ingressDrift(with, without *trial) {
	f := faults(node)["ingress-ca-drift"]
	repair := broken(with, platform, f.do, f.undo)
	with.says(diag.RecIdentityRejected, "enroll")
	with.says(diag.RecRecoveryEnrolled, "enrolled")
	with.says(diag.RecRecoverySuppressed, "suppress")
	without.says(diag.RecRecoveryTokenMissing, "retry")
	named(mistrusted, with, without)
	refusedReenroll(with)
	with.quiet(watched)
	with.unheard(watched)
	with.enrolled(1, 0)
	without.enrolled(0, 0)
	fresh := with.certSerial()
	repair()
	with.well()
	without.well()
	with.serves()
	with.enrolled(1, 0)
	with.sameCert(fresh)
	without.enrolled(0, 0)
	without.sameCert(without.serial)
}

// anotherSigningCA is a control plane that was restarted without its persisted CA.
var (
	anotherSigningCA = `cd /etc/gpuaas-platform/pki; mkdir /run/fault.pki; cp -p signing-ca.crt signing-ca.key /run/fault.pki/
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /run/fault.key -out /run/fault.crt -subj '/CN=node signing CA, made at a restart' -days 2 2>/dev/null
cat /run/fault.crt >signing-ca.crt; cat /run/fault.key >signing-ca.key; rm /run/fault.crt /run/fault.key; ` + restartPlatform
	ownSigningCA = `cd /etc/gpuaas-platform/pki; cat /run/fault.pki/signing-ca.crt >signing-ca.crt; cat /run/fault.pki/signing-ca.key >signing-ca.key; rm -r /run/fault.pki; ` + restartPlatform
)

// signingDrift: the node with a token gets one certificate that the ingress does not accept, and stops there.
// After the repair the node that kept its certificate recovers by itself; the other one has a certificate of a CA
// that is gone, and waits for the operator.
func signingDrift(with, without *trial) {
	repair := broken(with, platform, anotherSigningCA, ownSigningCA)
	with.says(diag.RecIdentityRejected, "enroll")
	with.says(diag.RecRecoveryEnrolled, "enrolled")
	with.says(diag.RecRecoverySuppressed, "suppress")
	named(mistrusted, with, without)
	refusedReenroll(with)
	with.enrolled(1, 0)
	without.enrolled(0, 0)
	repair()
	without.well()
	without.sameCert(without.serial)
	with.unheard(watched)
	with.enrolled(1, 0)
	with.reenroll()
	with.well()
	with.enrolled(2, 0)
}

// clonedIdentity: the first machine's credentials are copied to the second one, as from a disk image. Neither
// machine may decide that it is the genuine one: both stop, and an operator gives the node a new identity.
func clonedIdentity(with, without *trial) {
	image := strings.TrimSpace(with.on("tar -C /etc -cz gpuaas | base64 -w0"))
	if _, err := base64.StdEncoding.DecodeString(image); err != nil {
		with.t.Fatal(err)
	}
	putOn(with.t, with.l, without.node, "/root/image", []byte(image))
	const own = "if test -d /root/own; then systemctl stop gpuaas-node-agent; rm -rf /etc/gpuaas; mv /root/own " +
		"/etc/gpuaas; systemctl start gpuaas-node-agent; fi"
	with.t.Cleanup(func() { without.on(own + "; rm -f /root/image") })
	without.on(stopAgent +
		"; mv /etc/gpuaas /root/own; base64 -d </root/image | tar -C /etc -xz; systemctl start gpuaas-node-agent")
	with.says(diag.RecClonedIdentity, "quarantine")
	without.says(diag.RecClonedIdentity, "quarantine")
	with.named(verdict{diag.ReasonClonedIdentity, diag.UserSecurity, diag.P0})
	task := api(with.t, with.l, adminNode+"/tasks", `{"type":"noop","payload":{},"ttl_seconds":60}`)
	with.quiet(watched)
	with.unheard(watched)
	with.enrolled(0, 0)
	with.sameCert(with.serial)
	var got struct{ Status string }
	if with.get(fmt.Sprintf("/v1/admin/tasks/%s", task["id"]), &got); got.Status != "queued" {
		with.t.Errorf("a quarantined node took work: it is %s", got.Status)
	}

	copyID := strings.TrimSpace(without.on("cat /etc/machine-id"))
	host := `{"reason":"recovery suite","instance_id":"` + copyID + `"}`
	api(with.t, with.l, adminNode+"/fence", host)
	// otherwise a copy would not be detected there again
	with.t.Cleanup(func() { api(with.t, with.l, adminNode+"/reactivate", host) })
	without.on(own)
	api(with.t, with.l, adminNode+"/reactivate", `{"reason":"recovery suite","new_identity":true}`)
	with.reenroll()
	with.well()
	with.enrolled(1, 0)
	with.newCert()
	with.serves()
	without.well()
	without.enrolled(0, 0)
	without.sameCert(without.serial)
}

// longOutage: certificates expire while the platform is down. A node with a current token and valid trust gets a new
// one by itself once the platform is back; one whose certificate is still valid simply continues.
func longOutage(with, without *trial) {
	next := token(with)
	repair := broken(with, platform, "systemctl kill -s TERM nginx; systemctl stop nginx gpuaas-platform",
		restartPlatform+"; systemctl start nginx")
	const life = 20 * time.Second // from the start of the outage to an expired certificate
	mintCert(with.t, with.l, with.node, -time.Hour, life)
	ends := time.Now().Add(life)
	with.on(stopAgent + "; " + useMaterial)
	with.putToken(next)
	with.on("systemctl start gpuaas-node-agent")
	with.says(diag.RecAPIUnreachable, "retry")
	without.says(diag.RecAPIUnreachable, "retry")
	without.named(verdict{diag.ReasonControlPlaneUnreachable, diag.UserTemporary, diag.P1})
	time.Sleep(time.Until(ends))
	with.says(diag.RecCertExpired, "enroll")
	with.named(verdict{diag.ReasonCertExpired, diag.UserRecovery, diag.P1})
	with.quiet(20 * time.Second) // its first attempts have short pauses, and each of them asks for the time as well
	repair()
	with.well()
	without.well()
	with.enrolled(1, 0)
	with.newCert()
	without.enrolled(0, 0)
	without.sameCert(without.serial)
}

// rateLimited: the ingress responds with 429. The node asks less often, and does nothing else.
func rateLimited(with, without *trial) {
	f := faults(node)["edge-rate-limited"]
	repair := broken(with, platform, f.do, f.undo)
	with.says(diag.RecEdgeRateLimited, "retry")
	began, mark := time.Now(), with.mark()
	const long = 10 * time.Second
	time.Sleep(long)
	for _, c := range []*trial{with, without} {
		n, took := c.requests(mark), time.Since(began)
		most := int(took.Seconds() * healthyRate)
		c.step("%d requests in %s; a healthy agent makes %d", n, took.Round(time.Millisecond), most)
		if n > most*2/3 {
			c.t.Errorf("%s: that is not slow", c.node)
		}
	}
	for with.requests(mark) == 0 { // alive: its next try comes
		if time.Since(began) > agentPatience {
			with.t.Fatalf("%s asks for nothing", with.node)
		}
	}
	named(verdict{diag.ReasonEdgeRateLimited, diag.UserTemporary, diag.P2}, with, without)
	repair()
	with.well()
	without.well()
	with.enrolled(0, 0)
	with.sameCert(with.serial)
	without.sameCert(without.serial)
}
