package chaos

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/owned"
)

// Source is the origin of a drill's text. The drill's probes on the operator's machine run with the operator's
// rights, so it matters who could have written the file.
type Source struct {
	Builtin bool   // part of this program
	SHA256  string // of the text, in hex
	Doubt   string // why a user other than root and this one could have written it; "" if none could
}

// LocalPrograms returns the programs that the drill runs on the operator's machine, with their arguments as written in
// the file.
func (s *Scenario) LocalPrograms() [][]string {
	var all [][]string
	for _, p := range [...]Probe{s.VerifyInjected.Probe, s.VerifyInjected.Control, s.Recovery.Proof} {
		if p.From == RoleOperator && !slices.ContainsFunc(all, func(o []string) bool { return slices.Equal(o, p.Probe) }) {
			all = append(all, p.Probe)
		}
	}
	return all
}

// MayRunLocally refuses a drill that runs programs on the operator's machine and whose file another user could have
// written. trusted lists files as FILE@SHA256 that the operator has read.
func (s *Scenario) MayRunLocally(trusted []string) error {
	if s.Source.Builtin || len(s.LocalPrograms()) == 0 || s.Source.Doubt == "" {
		return nil
	}
	for _, t := range trusted {
		file, sum, _ := strings.Cut(t, "@")
		switch {
		case filepath.Clean(file) != filepath.Clean(s.File):
		case strings.EqualFold(sum, s.Source.SHA256):
			return nil
		default:
			return fmt.Errorf("%s: it is not the text that --trust names: its sha256 is %s; read it again", s.File,
				s.Source.SHA256)
		}
	}
	var names []string
	for _, argv := range s.LocalPrograms() {
		if !slices.Contains(names, argv[0]) {
			names = append(names, argv[0])
		}
	}
	return fmt.Errorf(
		"%s: it runs %s on this machine with your rights, and %s; read it, then pass --trust %s@%s, or keep it where only "+
			"you can write",
		s.File, strings.Join(names, ", "), s.Source.Doubt, s.File, s.Source.SHA256)
}

// sourceOf returns the source of an opened file; an embedded file is part of this program.
func sourceOf(f fs.File, text []byte) Source {
	s := Source{SHA256: fmt.Sprintf("%x", sha256.Sum256(text))}
	opened, ok := f.(*os.File)
	if !ok {
		s.Builtin = true
		return s
	}
	var foreign *owned.Error
	switch err := owned.Check(opened, owned.Caller()); {
	case errors.As(err, &foreign):
		s.Doubt = foreign.Path + " " + foreign.Reason
	case err != nil:
		s.Doubt = err.Error()
	}
	return s
}
