package command

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/owned"
)

// program is an open program, which was checked.
type program struct {
	file   *os.File
	path   string // after symbolic links
	script bool   // an interpreter opens it by its path
	sha256 string // where root runs it
}

// openProgram opens and checks a program: the open file is what is checked and run, so it cannot be swapped in between.
// Only root and uid may be able to change it or put another one in its place.
func openProgram(path string, uid int) (*program, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	p := &program{file: f}
	if err := p.check(path, uid); err != nil {
		_ = f.Close() // it was read only
		return nil, err
	}
	return p, nil
}

func (p *program) check(path string, uid int) error {
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return fmt.Errorf("%s is not a program (%s)", path, mode.Type())
	case mode&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return fmt.Errorf("%s takes the rights of another user (mode %s)", path, mode)
	case mode.Perm()&0o111 == 0:
		return fmt.Errorf("%s is not executable (mode %04o)", path, mode.Perm())
	}
	if err := owned.Check(p.file, owned.Users{0, uid}); err != nil {
		return err
	}
	if p.path, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	if end, err := os.Stat(p.path); err != nil || !os.SameFile(end, info) {
		return errors.Join(fmt.Errorf("%s was replaced while it was read", path), err)
	}
	return p.readScript()
}

// readScript finds out whether it is a script, and then whether its interpreter exists.
func (p *program) readScript() error {
	head := make([]byte, 256)
	n, err := p.file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	line, is := strings.CutPrefix(string(head[:n]), "#!")
	if !is {
		return nil
	}
	p.script = true
	line, _, _ = strings.Cut(line, "\n")
	words := strings.Fields(line)
	if len(words) == 0 {
		return fmt.Errorf("%s names no interpreter", p.path)
	}
	if _, err := os.Stat(words[0]); err != nil {
		return fmt.Errorf("the interpreter of %s: %w", p.path, err)
	}
	return nil
}

// mostDigested bounds the program of which root takes a digest.
const mostDigested = 512 << 20

// digest reads the whole program.
func (p *program) digest() error {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(p.file, 0, mostDigested+1))
	switch {
	case err != nil:
		return err
	case n > mostDigested:
		return fmt.Errorf("%s is larger than %d bytes", p.path, mostDigested)
	}
	p.sha256 = hex.EncodeToString(h.Sum(nil))
	return nil
}

// mayBeRoot reports why the program may not run as root; nil if the owner of the machine allows it.
func (p *program) mayBeRoot(declared, user, allowFile string, owner int, now time.Time) error {
	grants, err := readGrants(allowFile, owner)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("there is no such file")
	}
	if err == nil {
		if err = p.digest(); err == nil {
			err = granted(grants, declared, p.sha256, user, now)
		}
	}
	if err != nil {
		return fmt.Errorf("a check runs as root only if %s allows it: %w", allowFile, err)
	}
	return nil
}
