package probe

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Lookup finds the value at a path of Request.Extract in a JSON document, as text: a string without its quotes,
// everything else as it is written. There is none where the document lacks it, or has a null.
type Lookup func(doc []byte, path string) (value string, found bool)

// plainPath reports whether path is names and list indices joined by dots: all that a node looks up.
func plainPath(path string) bool {
	for _, step := range strings.Split(path, ".") {
		if step == "" || span(step, 0, nameByte) < len(step) {
			return false
		}
	}
	return true
}

// lookup is the Lookup of plain paths.
func lookup(doc []byte, path string) (string, bool) {
	for _, step := range strings.Split(path, ".") {
		doc = child(bytes.TrimSpace(doc), step)
	}
	return jsonText(doc)
}

// child is an object's member or a list's element; nil where there is none.
func child(doc []byte, step string) []byte {
	if !bytes.HasPrefix(doc, []byte("[")) {
		var members map[string]json.RawMessage
		_ = bounded.Unmarshal(doc, &members, bounded.Answer()) // what is no object has no members
		return members[step]
	}
	var list []json.RawMessage
	_ = bounded.Unmarshal(doc, &list, bounded.Answer()) // one that breaks off ends where it does
	if n, err := strconv.ParseUint(step, 10, 31); err == nil && int(n) < len(list) {
		return list[n]
	}
	return nil
}

// jsonText is a JSON value as text; none for no value and for null.
func jsonText(value []byte) (string, bool) {
	if len(value) == 0 || value[0] == 'n' {
		return "", false
	}
	var s string
	if value[0] == '"' && bounded.Unmarshal(value, &s, bounded.Answer()) == nil {
		return s, true
	}
	return string(value), true
}
