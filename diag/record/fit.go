package record

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gpuaas/gpuaasctl/diag"
)

// cut marks where text was removed.
const cut = "…"

// maxBoot bounds the length of a boot id; a UUID has 36.
const maxBoot = 64

// plain returns e with a header that fits on a line: a boot id of letters, digits and dashes, and times with four-digit
// years.
func plain(e diag.RecordEntry) diag.RecordEntry {
	boot := strings.Map(func(r rune) rune {
		if r == '-' || ('0' <= r && r <= '9') || ('a' <= r && r <= 'z') || ('A' <= r && r <= 'Z') {
			return r
		}
		return -1
	}, e.BootID)
	e.BootID = boot[:min(len(boot), maxBoot)]
	for _, t := range [...]*diag.Time{&e.At, &e.First, &e.Last} {
		*t = diag.At(t.Time)
		if y := t.Year(); y < 0 || y > 9999 {
			*t = diag.Time{Time: time.Time{}}
		}
	}
	return e
}

// fit encodes e as JSON of at most room bytes. It shortens the detail first, then the facts, then every other long
// field.
func fit(e diag.RecordEntry, room int) []byte {
	b := canonical(e)
	for limit := room; len(b) > room; limit /= 2 {
		const readable = 256
		e.Detail = shorten(e.Detail, limit)
		if limit < readable {
			e.Facts = shortenAll(e.Facts, limit)
		}
		if limit < readable/4 {
			for _, s := range [...]*string{&e.About, &e.Decision, &e.Code, &e.CorrelationID, &e.TaskID, &e.NodeID, &e.InstanceID,
				&e.Agent, &e.Pin} {
				*s = shorten(*s, limit)
			}
			e.Reason, e.Failure = diag.RecordReason(shorten(string(e.Reason), limit)),
				diag.Failure(shorten(string(e.Failure), limit))
		}
		b = canonical(e)
	}
	return b
}

// shortenAll shortens names and values, and drops those for which a slot has no room.
func shortenAll(facts map[string]string, limit int) map[string]string {
	const most = 4096 / 64
	out := make(map[string]string, min(len(facts), most))
	for _, k := range slices.Sorted(maps.Keys(facts)) { // sorted, since two names may become equal when shortened
		v := facts[k]
		if len(facts) > most/4 && limit < len(facts) {
			continue // too many to be useful
		}
		out[shorten(k, limit)] = shorten(v, limit)
	}
	if len(out) < len(facts) {
		out[cut] = cut
	}
	return out
}

// shorten cuts s to at most limit bytes including the mark, between two characters.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := max(0, limit-len(cut))
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	if end == 0 {
		return ""
	}
	return strings.TrimSuffix(s[:end], cut) + cut
}

// canonical returns the only encoding of an entry: fields in the order of the struct, facts sorted.
func canonical(e diag.RecordEntry) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	// strings, numbers and times with four-digit years cannot fail to encode
	if err := enc.Encode(body{RecordEntry: e}); err != nil {
		return []byte("{}")
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
