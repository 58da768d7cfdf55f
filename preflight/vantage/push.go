package vantage

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaasctl/internal/owned"
)

// pushTimeout bounds one push: 8.5 MB at 2 Mbit/s.
const pushTimeout = 34 * time.Second

// Program is one of our programs, built for one type of machine.
type Program struct {
	Path    string // here
	Name    string // on the node: gpuaas-agent-<first 16 digits of sum>
	Sum     string // sha256, hex
	Machine string // as printed by uname -m
}

// machines maps uname's names to the ELF machines for which helpers are built.
var machines = [...]struct {
	elf   elf.Machine
	uname string
}{{elf.EM_X86_64, "x86_64"}, {elf.EM_AARCH64, "aarch64"}}

// HelperDirs returns the folders with the node's helper: libexec, and the folder of this program.
func HelperDirs(libexec string) []string {
	if libexec != "" {
		return []string{libexec}
	}
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	return []string{filepath.Dir(self)}
}

// helpers are the programs that may be pushed to a node, one per machine type, and why others are not.
type helpers struct {
	mine    []Program
	refused error
}

func findHelpers(dirs []string, build owned.Build) helpers {
	mine, err := Programs(dirs, "gpuaas-agent", build)
	return helpers{mine, err}
}

// Programs lists one program per machine type, from files named name or name-linux-ARCH. It skips files that are not
// programs for Linux. A node would run them as root, so those that another user could have written or that are not of
// build are left out, and refused is the reason.
func Programs(dirs []string, name string, build owned.Build) (found []Program, refused error) {
	by := owned.Caller().WithProgram()
	for _, dir := range dirs {
		for _, file := range []string{name, name + "-linux-" + runtime.GOARCH, name + "-linux-amd64", name + "-linux-arm64"} {
			p, err := readProgram(filepath.Join(dir, file), name, by)
			if err == nil {
				err = build.Check(p.Path, name, p.Sum)
			}
			switch {
			case errors.As(err, new(*owned.Error)):
				refused = fmt.Errorf("another user could have written it: %w", err)
			case errors.As(err, new(*owned.BuildError)):
				refused = err
			}
			if err == nil && !slices.ContainsFunc(found, func(o Program) bool { return o.Machine == p.Machine }) {
				found = append(found, p)
			}
		}
	}
	return found, refused
}

// readProgram reads a program that one of by has written.
func readProgram(path, name string, by owned.Users) (Program, error) {
	f, err := owned.Open(path, by)
	if err != nil {
		return Program{}, err
	}
	defer f.Close()
	e, err := elf.NewFile(f)
	if err != nil {
		return Program{}, fmt.Errorf("reading %s: %w", path, err)
	}
	p := Program{Path: path}
	for _, m := range machines {
		if e.Machine == m.elf {
			p.Machine = m.uname
		}
	}
	if p.Machine == "" {
		return Program{}, fmt.Errorf("%s is for %s", path, e.Machine)
	}
	if p.Sum, err = sumOf(f); err != nil {
		return Program{}, fmt.Errorf("reading %s: %w", path, err)
	}
	p.Name = name + "-" + p.Sum[:16]
	return p, nil
}

// sums caches the digests of programs: all walks of a fleet push the same helper.
var sums sync.Map // version -> string

// version identifies one content of a program's file.
type version struct {
	path string
	size int64
	at   time.Time
}

// sumOf returns the sha256 of f, in hex.
func sumOf(f *os.File) (string, error) {
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(f.Name())
	if err != nil {
		return "", err
	}
	of := version{path, st.Size(), st.ModTime()}
	if sum, ok := sums.Load(of); ok {
		return sum.(string), nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return "", err
	}
	sum := hex.EncodeToString(h.Sum(nil))
	sums.Store(of, sum)
	return sum, nil
}

// noHelper is the error of an operator without a program to push.
type noHelper struct{ text string }

func (e *noHelper) Error() string { return e.text }

// push copies our helper for the node's machine type to the node. Its error is a text for operators.
func (l *link) push(ctx context.Context, client *ssh.Client, sudo bool, mine []Program, old *trial) error {
	switch {
	case len(mine) == 0 && l.refused != nil:
		return &noHelper{"and ours is not pushed, since " + l.refused.Error()}
	case len(mine) == 0:
		return &noHelper{"and none is available here to push (looked for gpuaas-agent; see --libexec)"}
	}
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	uname := old.uname
	if uname == "" {
		n, err := l.ask(ctx, client, command(unameScript, false))
		if err != nil {
			return err
		}
		uname = n.uname
	}
	i := slices.IndexFunc(mine, func(p Program) bool { return p.Machine == uname })
	switch {
	case i < 0 && l.refused != nil:
		return &noHelper{"and none for " + uname + " is pushed, since " + l.refused.Error()}
	case i < 0:
		return &noHelper{"and none for " + uname + " is available here to push"}
	}
	h := mine[i]
	f, err := os.Open(h.Path)
	if err != nil {
		return fmt.Errorf("and ours cannot be pushed: %w", err)
	}
	defer f.Close()
	n, err := l.feed(ctx, client, command(pushScript, sudo, h.Name, h.Sum), f)
	switch {
	case err != nil:
		return fmt.Errorf("and pushing ours failed: %w", err)
	case n.word == "failed":
		return fmt.Errorf("and pushing ours failed: %s", n.text)
	case n.word != "pushed":
		return fmt.Errorf("and pushing ours failed: the node said %q", n.word)
	}
	return nil
}

const unameScript = `echo "GPUAASCTL-SENTINEL uname uname=$(uname -m)"`

// ask runs a short script and returns its note.
func (l *link) ask(ctx context.Context, client *ssh.Client, cmd string) (scriptLine, error) {
	return l.feed(ctx, client, cmd, nil)
}

// feed runs a script with input and returns its first note.
func (l *link) feed(ctx context.Context, client *ssh.Client, cmd string, input io.Reader) (scriptLine, error) {
	s, err := l.exec(ctx, client, cmd)
	if err != nil {
		return scriptLine{}, err
	}
	defer s.end()
	unhook := context.AfterFunc(ctx, l.kill) // a write to a frozen node blocks
	defer unhook()
	var writeErr error
	if input != nil {
		_, writeErr = io.Copy(s.ch, input)
	}
	_ = s.ch.CloseWrite()
	e, err := s.next(ctx, pushTimeout)
	switch {
	case err != nil:
		return scriptLine{}, stopped(ctx, phaseExec, l.noAnswer())
	case e.note.word != "":
		return e.note, nil
	}
	s.settle(ctx)
	if words := s.words(); words != "" {
		return scriptLine{}, errors.New(words)
	}
	return scriptLine{}, errors.Join(errors.New("the command ended without a word"), writeErr)
}
