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
	"time"

	"golang.org/x/crypto/ssh"
)

// pushTimeout bounds one push: 7 MB over 2 Mbit/s.
const pushTimeout = 30 * time.Second

// helperFile is a gpuaas-agent that we can push.
type helperFile struct {
	path    string
	name    string // on the node: gpuaas-agent-<first 16 digits of sum>
	sum     string // sha256, hex
	machine string // as uname -m says it
}

// machines are uname's words for the ELF machines that helpers are built for.
var machines = [...]struct {
	elf   elf.Machine
	uname string
}{{elf.EM_X86_64, "x86_64"}, {elf.EM_AARCH64, "aarch64"}}

// HelperDirs is where a tool looks for the node's helper: in libexec, or beside its own program.
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

// findHelpers lists one helper per machine type, from files called gpuaas-agent or gpuaas-agent-linux-ARCH. A file
// that is no program for Linux is passed over.
func findHelpers(dirs []string) []helperFile {
	var found []helperFile
	for _, dir := range dirs {
		for _, name := range []string{"gpuaas-agent", "gpuaas-agent-linux-" + runtime.GOARCH, "gpuaas-agent-linux-amd64", "gpuaas-agent-linux-arm64"} {
			h, err := readHelper(filepath.Join(dir, name))
			if err == nil && !slices.ContainsFunc(found, func(o helperFile) bool { return o.machine == h.machine }) {
				found = append(found, h)
			}
		}
	}
	return found
}

func readHelper(path string) (helperFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return helperFile{}, err
	}
	defer f.Close()
	e, err := elf.NewFile(f)
	if err != nil {
		return helperFile{}, fmt.Errorf("reading %s: %w", path, err)
	}
	h := helperFile{path: path}
	for _, m := range machines {
		if e.Machine == m.elf {
			h.machine = m.uname
		}
	}
	if h.machine == "" {
		return helperFile{}, fmt.Errorf("%s is for %s", path, e.Machine)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return helperFile{}, fmt.Errorf("reading %s: %w", path, err)
	}
	h.sum = hex.EncodeToString(sum.Sum(nil))
	h.name = "gpuaas-agent-" + h.sum[:16]
	return h, nil
}

// push puts our helper for the node's machine type on the node. Its error says why not, in an operator's words.
func (l *link) push(ctx context.Context, client *ssh.Client, sudo bool, mine []helperFile, old *trial) error {
	if len(mine) == 0 {
		return errors.New("and there is none here to push (looked for gpuaas-agent; see --libexec)")
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
	i := slices.IndexFunc(mine, func(h helperFile) bool { return h.machine == uname })
	if i < 0 {
		return fmt.Errorf("and there is none for %s here to push", uname)
	}
	h := mine[i]
	f, err := os.Open(h.path)
	if err != nil {
		return fmt.Errorf("and ours cannot be pushed: %w", err)
	}
	defer f.Close()
	n, err := l.feed(ctx, client, command(pushScript, sudo, h.name, h.sum), f)
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
func (l *link) ask(ctx context.Context, client *ssh.Client, cmd string) (note, error) {
	return l.feed(ctx, client, cmd, nil)
}

// feed runs a script with input and returns its first note.
func (l *link) feed(ctx context.Context, client *ssh.Client, cmd string, input io.Reader) (note, error) {
	s, err := l.exec(ctx, client, cmd)
	if err != nil {
		return note{}, err
	}
	defer s.end()
	unhook := context.AfterFunc(ctx, l.kill) // a write to a frozen node hangs
	defer unhook()
	var writeErr error
	if input != nil {
		_, writeErr = io.Copy(s.ch, input)
	}
	_ = s.ch.CloseWrite()
	e, err := s.next(ctx, pushTimeout)
	switch {
	case err != nil:
		return note{}, stopped(ctx, phaseExec, silence(phaseExec, &l.target))
	case e.note.word != "":
		return e.note, nil
	}
	s.settle(ctx)
	if words := s.words(); words != "" {
		return note{}, errors.New(words)
	}
	return note{}, errors.Join(errors.New("the command ended without a word"), writeErr)
}
