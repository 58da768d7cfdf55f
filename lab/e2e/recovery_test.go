//go:build linux

package e2e

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// nodeFaults are the cases that concern a single node. Each one checks four things: the record has the reason, the
// classifier finds it, the agent does only what the drift model allows, and the node recovers by itself exactly if
// it may.
var nodeFaults = []struct {
	name string
	run  func(c *trial)
}{
	{"stale bundle, recovery by the same bundle", staleBundleBlocked},
	{"stale bundle, pinned recovery trust and a token", staleBundleHeals},
	{"expired certificate, current token", expiredHeals},
	{"expired certificate, no token", func(c *trial) { expiredWaits(c, "", diag.RecRecoveryTokenMissing) }},
	{"lost key, current token", lostKeyHeals},
	{"expired certificate, token of long ago", func(c *trial) {
		expiredWaits(c, oldToken(c.t, c.node), diag.RecRecoveryTokenExpired)
	}},
	// on the machine with one file system: the reserve makes room for the credentials
	{"disk full during renewal", diskFull},
	{"lost key, no token", lostKeyWaits},
	{"runtime URL at the public edge", publicEdge},
	{"agent killed in the middle of an update", killedUpdate},
}

// TestRecoveryOfNodes breaks nodes, one fault at a time on each.
func TestRecoveryOfNodes(t *testing.T) {
	l := needLab(t)
	t.Parallel()
	for _, fault := range nodeFaults {
		t.Run(fault.name, func(t *testing.T) { fault.run(begin(t, l, ownNode(t, l))) })
	}
}

// untrusted is the expected verdict for a node that cannot verify the platform's server.
var untrusted = verdict{diag.ReasonServerTLSUntrusted, diag.UserOperator, diag.P1}

// staleBundleBlocked: task poll and enrollment use the same outdated bundle. The platform never learns why; the
// node must not try for ever, and only a recovery bundle repairs it.
func staleBundleBlocked(c *trial) {
	staleBundle(c.t, c.l, c.node)
	c.giveToken()
	c.on("sed -i s,^GPUAAS_RECOVERY_CA_BUNDLE_PATH=.*,GPUAAS_RECOVERY_CA_BUNDLE_PATH=/etc/gpuaas/ca-bundle.crt, " +
		"/etc/gpuaas/agent.env; " + otherBundle + "; " + restartAgent)
	c.says(diag.RecServerTLSUntrusted, "retry")
	c.says(diag.RecRecoveryEnrollmentBlocked, "retry")
	c.named(untrusted)
	c.quiet(watched)
	c.unheard(watched)
	c.silent(diag.RecServerTLSUntrusted, "enroll")
	c.enrolled(0, 0)
	c.sameCert(c.serial)
	c.reenroll()
	c.well()
}

// heals: the agent names the reason, enrolls once and serves again, with a new certificate.
func (c *trial) heals(reason diag.RecordReason) {
	c.t.Helper()
	c.says(reason, "enroll")
	c.says(diag.RecRecoveryEnrolled, "enrolled")
	c.well()
	c.serves()
	c.enrolled(1, 0)
	c.newCert()
}

// staleBundleHeals: the recovery trust was pinned when the node was set up, so that drift of the bundle does not
// affect it.
func staleBundleHeals(c *trial) {
	staleBundle(c.t, c.l, c.node)
	c.giveToken()
	c.on(otherBundle + "; " + restartAgent)
	c.heals(diag.RecServerTLSUntrusted)
}

func expiredHeals(c *trial) {
	mintCert(c.t, c.l, c.node, -25*time.Hour, -time.Hour)
	c.giveToken()
	c.on(stopAgent + "; " + useMaterial)
	c.named(verdict{diag.ReasonCertExpired, diag.UserRecovery, diag.P1})
	c.on("systemctl start gpuaas-node-agent")
	c.heals(diag.RecCertExpired)
}

// expiredWaits: without a token that is current by the node's clock, the agent requests no certificate.
func expiredWaits(c *trial, token string, reason diag.RecordReason) {
	mintCert(c.t, c.l, c.node, -25*time.Hour, -time.Hour)
	c.on(stopAgent + "; " + noToken + "; " + useMaterial)
	if token != "" {
		c.putToken(token)
	}
	expired := c.certSerial()
	c.on("systemctl start gpuaas-node-agent")
	c.says(diag.RecCertExpired, "report")
	c.says(reason, "retry")
	c.named(verdict{diag.ReasonRecoveryTokenMissing, diag.UserOperator, diag.P1})
	c.quiet(watched)
	c.unheard(watched)
	c.enrolled(0, 0)
	c.sameCert(expired)
	c.reenroll()
	c.well()
	c.enrolled(1, 0)
}

// oldToken is an expired token of this node and profile, as on a node that was off for a week.
func oldToken(t *testing.T, machine string) string {
	t.Helper()
	token, err := wire.Token(wire.TokenClaims{NodeID: machine, Profile: "lab",
		IssuedAt: time.Now().Add(-7 * 24 * time.Hour), ExpiresAt: time.Now().Add(-6 * 24 * time.Hour)}, "of-last-week")
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// loseKey removes the node's key in every generation, as on a half-restored disk.
const loseKey = "rm -f /etc/gpuaas/generations/*/key.pem"

func lostKeyHeals(c *trial) {
	c.giveToken()
	c.on(stopAgent + "; " + loseKey)
	c.named(verdict{diag.ReasonIdentityRejectedRecoverable, diag.UserRecovery, diag.P1})
	c.on("systemctl start gpuaas-node-agent")
	c.heals(diag.RecCertMissing)
}

func lostKeyWaits(c *trial) {
	c.on(stopAgent + "; " + noToken + "; " + loseKey + "; systemctl start gpuaas-node-agent")
	c.says(diag.RecCertMissing, "report")
	c.says(diag.RecRecoveryTokenMissing, "retry")
	c.named(verdict{diag.ReasonRecoveryTokenMissing, diag.UserOperator, diag.P1})
	c.quiet(watched)
	c.unheard(watched)
	c.enrolled(0, 0)
	c.sameCert(c.serial)
	c.reenroll()
	c.well()
	c.enrolled(1, 0)
}

// diskFull: the certificate has to be renewed while the disk is full. The reserve makes room for it.
func diskFull(c *trial) {
	mintCert(c.t, c.l, c.node, -23*time.Hour, time.Hour)
	c.giveToken()
	c.t.Cleanup(func() { c.on("rm -f /var/fill.*; sync") })
	c.on(stopAgent + "; " + useMaterial + "\n" + fillDisk +
		"\n! dd if=/dev/zero of=/var/try bs=8192 count=1 2>/dev/null; rm -f /var/try")
	ending := c.certSerial()
	c.on("systemctl start gpuaas-node-agent")
	c.says(diag.RecCertExpiring, "renew")
	c.says(diag.RecDiskFull, "report")
	c.says(diag.RecRecoveryEnrolled, "enrolled")
	c.named(verdict{diag.ReasonDiskFull, diag.UserOperator, diag.P1})
	if now := c.certSerial(); now == ending || now == "" {
		c.t.Errorf("the certificate was not renewed: %q", now)
	}
	c.enrolled(1, 0)
	c.on("rm -f /var/fill.*; sync")
	c.well()
	c.enrolled(1, 0)
}

// publicEdge: the node talks to the browsers' edge. It has a token, and must not use it: the edge never requests a
// certificate, so its response is not evidence about this node's.
func publicEdge(c *trial) {
	c.giveToken()
	c.on("sed -i s,^GPUAAS_API_URL=.*,GPUAAS_API_URL=https://api.gpuaas.test, /etc/gpuaas/agent.env; " + restartAgent)
	c.says(diag.RecEndpointProfileDrift, "retry")
	c.named(verdict{diag.ReasonEndpointProfileDrift, diag.UserOperator, diag.P1})
	c.quiet(watched)
	c.unheard(watched)
	c.enrolled(0, 0)
	c.sameCert(c.serial)
	c.reenroll()
	c.well()
	c.sameCert(c.serial)
}
