package reading

import (
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Saw describes what a fact measured: the failure, its details, and how long it took.
func Saw(f *diag.Fact) string {
	if f == nil {
		return "not measured"
	}
	text := result(f)
	var more []string
	for _, row := range details {
		if row.of == nil || row.of(f) {
			if words := row.say(f); words != "" {
				more = append(more, words)
			}
		}
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	return text + " after " + strconv.FormatInt(int64(f.DurationMS), 10) + " ms"
}

// result is the word for what came of a probe.
func result(f *diag.Fact) string {
	switch {
	case f.Failure != diag.OK && f.Phase != "" && f.Phase != "format": // the failure has that word
		return string(f.Failure) + " in " + f.Phase
	case f.Failure != diag.OK:
		return string(f.Failure)
	case f.HTTP == nil:
		return "passed"
	case f.HTTP.Location != "":
		return httpStatus(f) + " to " + f.HTTP.Location
	}
	return httpStatus(f)
}

// details are what else a fact tells of its result, in this order.
var details = [...]struct {
	of  func(f *diag.Fact) bool   // nil: of any fact
	say func(f *diag.Fact) string // "": nothing
}{
	{answeredByError, httpStatus},
	{answeredByError, redirectedTo},
	{answeredByError, func(f *diag.Fact) string { return f.HTTP.ErrorCode }},
	{answeredByError, EdgeWords},
	{nil, func(f *diag.Fact) string { return f.Errno }},
	{failedBy(diag.TLSALPN), always("it does not take HTTP/1.1, which was offered by ALPN")},
	{failedBy(diag.TLSProtocol), func(f *diag.Fact) string { return OneLine(f.Detail) }}, // which alert it was
	{lookingUp, func(f *diag.Fact) string { return after("asked ", f.DNS.Server) }},
	{nil, resolverWords},
	{nil, CompletedName},
	{truncated, always("its answer over UDP is truncated, and the query over TCP failed")},
	{failedBeforeHTTP, func(f *diag.Fact) string {
		return after("its name servers do not agree: ", nameServersDiffer(f.DNS))
	}},
	{failedBeforeHTTP, unusedProxy},
	{connecting, func(f *diag.Fact) string { return strings.Join(dialled(f), ", ") }},
	{prohibited, func(f *diag.Fact) string {
		return f.TCP.ProhibitedBy + " answers that it is administratively prohibited (ICMPv6)"
	}},
}

func answeredByError(f *diag.Fact) bool {
	return f.Failure != diag.OK && f.HTTP != nil && f.HTTP.Status != 0
}

func failedBy(failure diag.Failure) func(*diag.Fact) bool {
	return func(f *diag.Fact) bool { return f.Failure == failure }
}

func failedBeforeHTTP(f *diag.Fact) bool {
	return f.Failure != diag.OK && InPhase(f, "dns", "tcp", "tls")
}

func lookingUp(f *diag.Fact) bool { return f.DNS != nil && f.Phase == "dns" }

func truncated(f *diag.Fact) bool { return lookingUp(f) && f.DNS.Truncated }

func connecting(f *diag.Fact) bool { return f.TCP != nil && f.Phase == "tcp" }

func prohibited(f *diag.Fact) bool { return connecting(f) && f.TCP.ProhibitedBy != "" }

// unusedProxy describes the proxy that other programs with this environment go through; "" without one.
func unusedProxy(f *diag.Fact) string {
	name, host, _ := strings.Cut(f.Proxy, " ")
	if name == "" {
		return ""
	}
	return strings.TrimSpace(name+" is set "+host) + " and is not used here"
}

func httpStatus(f *diag.Fact) string { return "HTTP " + strconv.Itoa(f.HTTP.Status) }

func redirectedTo(f *diag.Fact) string { return after("to ", f.HTTP.Location) }

func always(words string) func(*diag.Fact) string { return func(*diag.Fact) string { return words } }

// after is a value with its label, "" without a value.
func after(label, value string) string {
	if value == "" {
		return ""
	}
	return label + value
}
