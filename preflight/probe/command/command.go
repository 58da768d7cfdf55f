// Package command runs the programs that an operator's profile declares as checks, for OpCommand: with no more rights
// than the profile names, without a shell, with a fixed environment, and so that nothing of them is left, whatever they
// do. It judges nothing: a fact has the exit code and what was written.
package command

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Prober runs programs on the machine of this process. The zero value runs none: a request may come from a platform.
type Prober struct {
	// Allowed says that the requests come from an operator: from this process, or over the operator's login.
	Allowed bool
	// Own says that programs run with the rights of this process, root's too: it is the operator's own. Else none is run
	// as root that AllowFile does not name.
	Own bool

	allowFile string // for tests; "": AllowFile
}

const (
	// width is how many commands run at once on one machine: the others wait, so that twenty checks do not slow a walk.
	width = 4
	// mostArgs and mostArgBytes bound an argv.
	mostArgs, mostArgBytes = 128, 32 << 10
	// mostOutput bounds what is kept of each output.
	mostOutput = 512 << 10
	// mostLimit bounds how long a command may run.
	mostLimit = 10 * time.Minute
)

// environment is the same for every program: nothing of the login's reaches it.
var environment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/",
}

// checked reports why a command is not one; nil if it is.
func checked(c *diag.Program) error {
	if c == nil || len(c.Argv) == 0 {
		return fmt.Errorf("no command was given")
	}
	size := 0
	for _, word := range c.Argv {
		if size += len(word) + 1; strings.IndexByte(word, 0) >= 0 {
			return fmt.Errorf("an argument has a NUL byte")
		}
	}
	path := c.Argv[0]
	switch {
	case !filepath.IsAbs(path) || filepath.Clean(path) != path:
		return fmt.Errorf("%q is not an absolute path in its shortest form", path)
	case len(c.Argv) > mostArgs, size > mostArgBytes:
		return fmt.Errorf("more than %d arguments, or %d bytes of them", mostArgs, mostArgBytes)
	case c.LimitMS <= 0, c.LimitMS > mostLimit.Milliseconds():
		return fmt.Errorf("a command may run for 1 ms to %s, not %d ms", mostLimit, c.LimitMS)
	case c.Most <= 0, c.Most > mostOutput:
		return fmt.Errorf("1 to %d bytes of output may be kept, not %d", mostOutput, c.Most)
	}
	return nil
}

// printable returns an output as text: without control characters, with a mark for each byte that is no UTF-8.
func printable(b []byte) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(b), "\uFFFD"))
}
