package trust

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// refused reports whether f's peer answered and rejected the certificate.
func refused(f *diag.Fact) bool {
	if f == nil || f.Throttled() {
		return false
	}
	switch f.Failure {
	case diag.MTLSUnknownCA, diag.MTLSCertExpired, diag.MTLSCertNotYetValid, diag.MTLSCertRejected, diag.MTLSIngress400:
		return f.Phase == "mtls" || f.Phase == "http" || f.Phase == "ws"
	}
	return f.HTTP != nil && (f.HTTP.Status == 401 || f.HTTP.Status == 403)
}

// answer sums up the result of f.
func answer(f *diag.Fact) string {
	text := string(f.Failure)
	if f.HTTP != nil && f.HTTP.Status != 0 {
		text += fmt.Sprintf(", HTTP %d", f.HTTP.Status)
	}
	if c := code(f); c != "" {
		text += " " + c
	}
	return text
}

func code(f *diag.Fact) string {
	if f.HTTP == nil {
		return ""
	}
	if v := f.HTTP.Fields["error.code"]; v != "" {
		return v
	}
	return f.HTTP.ErrorCode
}

func acceptable(f *diag.Fact) []string {
	if f == nil || f.TLS == nil {
		return nil
	}
	return f.TLS.AcceptableCAs
}

// dates reports whether a chain failed only because of its dates, so that the failure does not show whether it is
// trusted.
func dates(w diag.Failure) bool { return w == diag.TLSExpired || w == diag.TLSNotYetValid }

// because returns why a fact is not evidence, or "".
func because(f *diag.Fact) string {
	switch {
	case f == nil:
		return ""
	case f.Failure == diag.OK && f.HTTP != nil && f.HTTP.Status != 200:
		return fmt.Sprintf(": HTTP %d", f.HTTP.Status)
	case f.Failure == diag.OK:
		return ""
	case f.Phase != "":
		return fmt.Sprintf(": %s in %s", f.Failure, f.Phase)
	}
	return ": " + string(f.Failure)
}

func remote(f *diag.Fact) string {
	if f.TCP == nil {
		return "an unknown address"
	}
	if f.DNS != nil && f.DNS.Source != "" {
		return f.TCP.Remote + " (" + strings.TrimSpace(f.DNS.Source+" "+f.DNS.SourceLine) + ")"
	}
	return f.TCP.Remote
}

// CommonName returns the common name of a distinguished name, or all of it if it has none.
func CommonName(dn string) string {
	for part := range strings.SplitSeq(dn, ",") {
		if cn, ok := strings.CutPrefix(part, "CN="); ok {
			return cn
		}
	}
	return dn
}

func day(t diag.Time) string { return t.UTC().Format(time.DateTime) + "Z" }

// clip joins the first three names.
func clip(names []string) string {
	short := make([]string, 0, 4)
	for _, n := range names[:min(3, len(names))] {
		short = append(short, CommonName(n))
	}
	if len(names) > 3 {
		short = append(short, "...")
	}
	return strings.Join(short, ", ")
}
