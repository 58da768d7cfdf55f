package owned

import (
	"fmt"
	"slices"
	"strings"
)

// Build has the helpers of one build: the sha256 of each program's files, in hex, by the program's name. There are
// several where nodes have several types of machine. nil means that the build linked no digest, as with go build and
// go install: then only the rule about owners applies.
type Build map[string][]string

// ParseBuild parses what the Makefile links: NAME:SHA256,... An entry without a digest matches no file.
func ParseBuild(linked string) Build {
	if linked == "" {
		return nil
	}
	b := Build{}
	for entry := range strings.SplitSeq(linked, ",") {
		name, sum, _ := strings.Cut(entry, ":")
		b[name] = append(b[name], sum)
	}
	return b
}

// BuildError is a helper that another build made, or that was changed.
type BuildError struct{ Path, Sum string }

func (e *BuildError) Error() string {
	return fmt.Sprintf("%s is not of this build (sha256 %s): build again, or name its folder with --libexec", e.Path,
		e.Sum)
}

// Check returns a BuildError for a file of the program name whose digest is not of this build.
func (b Build) Check(path, name, sum string) error {
	if b == nil || (sum != "" && slices.Contains(b[name], sum)) {
		return nil
	}
	return &BuildError{path, sum}
}
