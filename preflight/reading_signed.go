package preflight

import (
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// platformSpeaks reports whether an answer is the platform's own: it has an error code, or is JSON. A page or an empty
// answer may come from any server on the path.
func platformSpeaks(f *diag.Fact) bool {
	return code(f) != "" || (f.HTTP != nil && strings.Contains(f.HTTP.ContentType, "json"))
}

// foreignPage reports whether an HTML page came in place of the platform's answer: a request filter, a proxy or another
// server on the path answered. A 5xx does not count: a proxy shows its own page for a platform that is down.
func foreignPage(f *diag.Fact) bool {
	s := status(f)
	return s >= 200 && s < 500 && s/100 != 3 && f.Failure != diag.HTTPEdgeAuth && !f.Throttled() && !platformSpeaks(f) &&
		(f.Failure == diag.HTTPEdgePage || strings.HasPrefix(strings.ToLower(f.HTTP.ContentType), "text/html"))
}

// platformCode reports whether the error code of a refusal is the platform's: a word of the contract about a node or
// its request, or any code at a place that only this platform's profile names.
func platformCode(f *diag.Fact) bool {
	word := strings.TrimPrefix(code(f), "node_")
	if word == "" {
		return false
	}
	_, denied := diag.DenialReason(word)
	place := f.Request.Extract[fieldErrorCode]
	own := place != "" && place != profile.DefaultMapping().Field(fieldErrorCode) && f.HTTP.Fields[fieldErrorCode] != ""
	return denied || own || diag.MissingFromEdge(word) != ""
}

// platformDenies reports whether a 401 or 403 is the platform's own refusal of this node. Filters and gateways on the
// path also answer in JSON, and with codes of their own: where the profile maps error codes, an answer without a code
// of the platform is not known to be the platform's.
func platformDenies(f *diag.Fact) bool {
	return platformCode(f) || (platformSpeaks(f) && unasked(f, fieldErrorCode))
}

// objects are what the platform's codes about a missing object or a bad request name: a filter or a gateway on the path
// has no such words.
var objects = [...]string{"node", "allocation", "task", "session"}

// namesObject reports whether an error code is about an object of the platform, as node_not_found is.
func namesObject(f *diag.Fact) bool {
	word := strings.ToLower(code(f))
	return slices.ContainsFunc(objects[:], func(o string) bool { return strings.Contains(word, o) })
}

// deniesObject reports whether an error code says that an object of the platform does not exist: no_node_available does
// not.
func deniesObject(f *diag.Fact) bool {
	word := strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(code(f)))
	return slices.ContainsFunc(objects[:], func(o string) bool {
		return slices.Contains([]string{o + "notfound", o + "unknown", "unknown" + o, "nosuch" + o}, word)
	})
}

// unsigned reports whether f is a 4xx in JSON without an error code of the platform, where the profile maps one: any
// server on the path may have answered. A 401 or 403 is about rights, see platformDenies.
func unsigned(f *diag.Fact) bool {
	s := status(f)
	return s/100 == 4 && s != 401 && s != 403 && !f.Throttled() && platformSpeaks(f) && !platformCode(f) &&
		!namesObject(f) && !unasked(f, fieldErrorCode)
}
