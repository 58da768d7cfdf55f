package probe

import (
	"context"
	"errors"
	"net"

	"github.com/gpuaas/gpuaasctl/diag"
)

// ClassifyDial names a failed dial, of ours or of a jump host, for those that dial other things than probes do: the
// failure word, the phase it belongs to (dns or tcp), and the symbolic errno, where there is one. ctx is the dial's.
func ClassifyDial(ctx context.Context, err error) (word diag.Failure, phase, errno string) {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		switch {
		case dns.IsNotFound:
			return diag.DNSNXDomain, "dns", ""
		case dns.IsTimeout || timedOut(ctx, err):
			return diag.DNSTimeout, "dns", ""
		}
		return diag.DNSServFail, "dns", ""
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return diag.Cancelled, phaseTCP, ""
	}
	if timedOut(ctx, err) {
		return diag.TCPTimeout, phaseTCP, errnoName(err)
	}
	return connectWord(err), phaseTCP, errnoName(err)
}
