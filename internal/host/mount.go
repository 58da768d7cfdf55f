package host

import (
	"fmt"
	"slices"
	"strings"
)

// Mount is one line of mountinfo, see proc(5).
type Mount struct {
	ID, Dev, Root, Point, Options string
	Kind, Source, Super           string // of the file system: type, source, options
}

// Mounts lists the mounts that a process sees, in the order of mounting.
func (p Proc) Mounts(pid int) ([]Mount, error) {
	text, err := Read(p.Path(pid, "mountinfo"), Table)
	if err != nil {
		return nil, err
	}
	return parseMounts(text)
}

func parseMounts(text string) ([]Mount, error) {
	var all []Mount
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		l, r := strings.Fields(left), strings.Split(right, " ") // a source may be empty
		if !ok || len(l) < 6 || len(r) < 3 {
			return nil, fmt.Errorf("mountinfo: %q", line)
		}
		all = append(all, Mount{ID: l[0], Dev: l[2], Root: unescape(l[3]), Point: unescape(l[4]), Options: l[5],
			Kind: r[0], Source: unescape(r[1]), Super: r[2]})
	}
	return all, nil
}

// unescape decodes the kernel's octal codes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\043`, "#", `\134`, `\`).Replace(s)
}

// HasSuper reports whether the file system has an option, which for a control group is a controller.
func (m Mount) HasSuper(option string) bool {
	return slices.Contains(strings.Split(m.Super, ","), option)
}
