package command

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/owned"
)

// AllowFile is where the owner of a machine says which checks may run there as root. Each line names a program, its
// digest, the user, and the last day (UTC):
//
//	/usr/sbin/smartctl sha256:9f86d0...15b0f00a08 root 2027-06-30
//
// It must belong to root, and so must every folder on its path.
const AllowFile = "/etc/gpuaasctl/checks.allow"

const (
	mostAllowed = 64 << 10
	allowDay    = "2006-01-02"
)

// grant is one line of the file.
type grant struct {
	path, sha256, user string
	line               int
	until              time.Time // the end of its last day
}

// parseGrants reads the file's text. One mistake makes the whole file invalid: what its author meant is not known then.
func parseGrants(text string) ([]grant, error) {
	var all []grant
	var errs []error
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		g, err := parseGrant(words)
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		g.line = n
		all = append(all, g)
	}
	return all, errors.Join(errs...)
}

func parseGrant(words []string) (g grant, err error) {
	if len(words) != 4 {
		return g, fmt.Errorf("want PROGRAM sha256:DIGEST USER YYYY-MM-DD, have %d words", len(words))
	}
	digest, named := strings.CutPrefix(words[1], "sha256:")
	raw, err := hex.DecodeString(digest)
	switch {
	case !filepath.IsAbs(words[0]) || filepath.Clean(words[0]) != words[0]:
		return g, fmt.Errorf("%q is not an absolute path in its shortest form", words[0])
	case !named, err != nil, len(raw) != 32, strings.ToLower(digest) != digest:
		return g, fmt.Errorf("want sha256: and 64 lower-case hex digits, not %q", words[1])
	}
	day, err := time.Parse(allowDay, words[3])
	if err != nil {
		return g, fmt.Errorf("want a last day as YYYY-MM-DD, not %q", words[3])
	}
	return grant{path: words[0], sha256: digest, user: words[2], until: day.AddDate(0, 0, 1)}, nil
}

// granted reports why a program of this path and digest may not run as user; nil if one line names it.
func granted(all []grant, path, sha256, user string, now time.Time) error {
	why := fmt.Errorf("it does not name %s", path)
	for _, g := range all {
		switch {
		case g.path != path:
		case g.user != user:
			why = fmt.Errorf("line %d names it for the user %s", g.line, g.user)
		case g.sha256 != sha256:
			why = fmt.Errorf("line %d names another digest; it has sha256:%s now", g.line, sha256)
		case !now.Before(g.until):
			why = fmt.Errorf("line %d has expired", g.line)
		default:
			return nil
		}
	}
	return why
}

// readGrants reads the file, if it is root's.
func readGrants(path string, owner int) ([]grant, error) {
	f, err := owned.Open(path, owned.Users{owner})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := bounded.Read(f, mostAllowed)
	if err != nil {
		return nil, err
	}
	return parseGrants(string(text))
}
