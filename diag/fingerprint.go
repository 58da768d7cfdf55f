package diag

import "strings"

// Fingerprint is a fingerprint in one spelling: platforms write the same digest with colons, in capitals, or with the
// name of the hash before it.
func Fingerprint(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	for _, hash := range [...]string{"sha256", "sha-256", "sha1", "sha-1"} {
		if rest, found := strings.CutPrefix(text, hash); found && strings.TrimLeft(rest, ":= /") != rest {
			text = strings.TrimLeft(rest, ":= /")
			break
		}
	}
	return strings.NewReplacer(":", "", " ", "", "-", "").Replace(text)
}
