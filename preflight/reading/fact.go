package reading

import (
	"cmp"
	"net"
	"net/url"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// Where returns the endpoint that a fact is about, without path and query.
func Where(f *diag.Fact) string {
	if f == nil {
		return "it"
	}
	return hop.EndpointOf(Target(f))
}

// Status returns the HTTP status of a fact, 0 if no answer came.
func Status(f *diag.Fact) int {
	if f == nil || f.HTTP == nil {
		return 0
	}
	return f.HTTP.Status
}

// Code returns the error code of an answer.
func Code(f *diag.Fact) string {
	if f == nil || f.HTTP == nil {
		return ""
	}
	if v := f.HTTP.Fields[hop.FieldErrorCode]; v != "" {
		return v
	}
	return f.HTTP.ErrorCode
}

// Unasked reports whether f did not ask for the named field, since this platform does not have it: the field's absence
// then shows nothing.
func Unasked(f *diag.Fact, name string) bool {
	return f != nil && f.Request.Op != "" && f.Request.Extract[name] == ""
}

// InPhase reports whether f failed in one of the phases.
func InPhase(f *diag.Fact, names ...string) bool {
	return slices.Contains(names, f.Phase)
}

// RemoteIP returns the address that a probe connected to, "" if it came to none.
func RemoteIP(f *diag.Fact) string {
	if f.TCP == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(f.TCP.Remote)
	if err != nil {
		return ""
	}
	return host
}

// Target returns the target that was really asked, with ${NAME} expanded.
func Target(f *diag.Fact) string {
	return cmp.Or(f.Target, f.Request.Target)
}

// HostOf returns the host of a URL or of a host and port.
func HostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// Resent reports whether the kernel sent a segment of the connection again.
func Resent(f *diag.Fact) bool { return f.TCP != nil && f.TCP.Resent != nil && *f.TCP.Resent > 0 }

// EndedAt returns when a request ended, in milliseconds since the walk's start.
func EndedAt(f *diag.Fact) int64 { return f.OffsetMS + int64(f.DurationMS) }
