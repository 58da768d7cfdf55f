package verdict

import (
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

type (
	signals = []diag.Signal
	words   = []diag.Failure
)

// holder returns the fact that has the cause of a finding that f decided, and the cause as text; "" if there is none.
type holder func(c *hop.Case, f *diag.Fact) (at *diag.Fact, text string)

// failures and signals that several rows share.
var (
	noFailure   = words{diag.OK}
	notRunning  = words{diag.UnitInactive, diag.UnitFailed}
	wrongDates  = words{diag.MTLSCertExpired, diag.MTLSCertNotYetValid}
	servedDates = words{diag.TLSExpired, diag.TLSNotYetValid}
	certRefused = words{diag.MTLSUnknownCA, diag.MTLSIngress400, diag.MTLSCertRejected}
	tlsSignals  = signals{
		diag.SigAPITLSFailed, diag.SigNodeStreamMTLS, diag.SigControlPlaneUnreachable, diag.SigTerminalEdgeTLS,
		diag.SigAppRouteFailed,
	}
)
