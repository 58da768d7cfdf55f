package host

import "strings"

// maxVersion bounds a version that is read from a file.
const maxVersion = 64

// Stamped is how the build writes version into a program called name, so that it can be read without running it: the
// linker sets main.version to this text. (The build info has no -ldflags under -trimpath.)
func Stamped(name, version string) string { return "[[" + name + "=" + version + "]]" }

// Unstamped returns the version in stamp; a text that is not a stamp of name is returned unchanged.
func Unstamped(name, stamp string) string {
	prefix, suffix, _ := strings.Cut(Stamped(name, "\x00"), "\x00")
	if v, ok := strings.CutPrefix(stamp, prefix); ok && strings.HasSuffix(v, suffix) {
		return strings.TrimSuffix(v, suffix)
	}
	return stamp
}
