package reading

import (
	"slices"
	"strings"
	"sync"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/profile"
)

// PlatformSpeaks reports whether an answer is the platform's own: it has an error code, or is JSON. A page or an empty
// answer may come from any server on the path.
func PlatformSpeaks(f *diag.Fact) bool {
	return Code(f) != "" || (f.HTTP != nil && strings.Contains(f.HTTP.ContentType, "json"))
}

// ForeignPage reports whether an HTML page came in place of the platform's answer: a request filter, a proxy or another
// server on the path answered. A 5xx does not count: a proxy shows its own page for a platform that is down.
func ForeignPage(f *diag.Fact) bool {
	s := Status(f)
	return s >= 200 && s < 500 && s/100 != 3 && f.Failure != diag.HTTPEdgeAuth && !f.Throttled() && !PlatformSpeaks(f) &&
		(f.Failure == diag.HTTPEdgePage || strings.HasPrefix(strings.ToLower(f.HTTP.ContentType), "text/html"))
}

// referenceCode is where the reference platform has its error codes.
var referenceCode = sync.OnceValue(func() string { return profile.DefaultMapping().Field(hop.FieldErrorCode) })

// PlatformCode reports whether the error code of a refusal is the platform's: a word of the contract about a node or
// its request, or any code at a place that only this platform's profile names.
func PlatformCode(f *diag.Fact) bool {
	word := strings.TrimPrefix(Code(f), "node_")
	if word == "" {
		return false
	}
	_, denied := diag.DenialReason(word)
	place := f.Request.Extract[hop.FieldErrorCode]
	own := place != "" && place != referenceCode() &&
		f.HTTP.Fields[hop.FieldErrorCode] != ""
	return denied || own || diag.MissingFromEdge(word) != ""
}

// PlatformDenies reports whether a 401 or 403 is the platform's own refusal of this node. Filters and gateways on the
// path also answer in JSON, and with codes of their own: where the profile maps error codes, an answer without a code
// of the platform is not known to be the platform's.
func PlatformDenies(f *diag.Fact) bool {
	return PlatformCode(f) || (PlatformSpeaks(f) && Unasked(f, hop.FieldErrorCode))
}

// objects are what the platform's codes about a missing object or a bad request name: a filter or a gateway on the path
// has no such words.
var objects = [...]string{"node", "allocation", "task", "session"}

// NamesObject reports whether an error code is about an object of the platform, as node_not_found is.
func NamesObject(f *diag.Fact) bool {
	word := strings.ToLower(Code(f))
	return slices.ContainsFunc(objects[:], func(o string) bool { return strings.Contains(word, o) })
}

// deniesObject reports whether an error code says that an object of the platform does not exist: no_node_available does
// not.
func deniesObject(f *diag.Fact) bool {
	word := strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(Code(f)))
	return slices.ContainsFunc(objects[:], func(o string) bool {
		return slices.Contains([]string{o + "notfound", o + "unknown", "unknown" + o, "nosuch" + o}, word)
	})
}

// Unsigned reports whether f is a 4xx in JSON without an error code of the platform, where the profile maps one: any
// server on the path may have answered. A 401 or 403 is about rights, see PlatformDenies.
func Unsigned(f *diag.Fact) bool {
	s := Status(f)
	return s/100 == 4 && s != 401 && s != 403 && !f.Throttled() && PlatformSpeaks(f) && !PlatformCode(f) &&
		!NamesObject(f) && !Unasked(f, hop.FieldErrorCode)
}
