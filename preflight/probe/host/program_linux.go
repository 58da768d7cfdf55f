package host

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// Kinds of programs that a kernel executes.
const (
	kindELF    = "elf"
	kindScript = "script"
)

const (
	// agentMain is the suffix of the main package's path in the build info of every gpuaas-agent, whatever its module's
	// name.
	agentMain = "/cmd/gpuaas-agent"
	// interpreterLine is how much the kernel reads of a script's first line.
	interpreterLine = 256
)

// openProgram opens a regular file, and never blocks on anything else.
func openProgram(path string) (*os.File, os.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	st, err := file.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &os.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, st, nil
}

// format is what the kernel checks before it executes a file.
type format struct {
	kind    string // elf | script; "" for neither
	machine elf.Machine
}

// readFormat reads a program's head; an error is why no kernel executes it.
func readFormat(path string) (format, error) {
	file, st, err := openProgram(path)
	if err != nil {
		return format{}, err
	}
	defer file.Close()
	head := make([]byte, interpreterLine)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return format{}, err
	}
	switch head = head[:n]; {
	case n == 0:
		return format{}, fmt.Errorf("exec format error: %s is empty", path)
	case bytes.HasPrefix(head, []byte("#!")):
		return format{kind: kindScript}, checkInterpreter(head)
	case !bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return format{}, fmt.Errorf("exec format error: %s is neither an ELF program nor a script with an interpreter line",
			path)
	}
	p, err := readProgram(file, st.Size())
	if err != nil {
		err = fmt.Errorf("exec format error: %s is cut off or damaged (%d bytes): %w", path, st.Size(), err)
	} else {
		err = p.check(file, path, st.Size())
	}
	return format{kindELF, p.machine}, err
}

// checkInterpreter checks the program in a script's first line.
func checkInterpreter(head []byte) error {
	line, _, _ := bytes.Cut(head[2:], []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return errors.New("exec format error: the script names no interpreter")
	}
	if _, err := os.Stat(words[0]); filepath.IsAbs(words[0]) && errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("its interpreter is missing: %w", err)
	}
	return nil
}

// check requires that segments are within the file, and that the loader exists.
func (p *program) check(r io.ReaderAt, path string, size int64) error {
	if p.kind != elf.ET_EXEC && p.kind != elf.ET_DYN {
		return fmt.Errorf("exec format error: %s is not a program (%s)", path, p.kind)
	}
	loads := 0
	for _, s := range p.segments {
		if s.Type == elf.PT_LOAD {
			loads++
			if beyond(s.Off, s.Filesz, uint64(size)) { //nolint:gosec // a file's size is not negative
				return fmt.Errorf("exec format error: %s is cut off: %d bytes of at least %d", path, size, s.Off+s.Filesz)
			}
		}
		if s.Type == elf.PT_INTERP && s.Filesz < 4096 {
			//nolint:gosec // reads as far as it goes
			loader, err := io.ReadAll(io.NewSectionReader(r, int64(s.Off), int64(s.Filesz)))
			name := string(bytes.TrimRight(loader, "\x00"))
			if _, missing := os.Stat(name); err == nil && errors.Is(missing, os.ErrNotExist) {
				return fmt.Errorf("its loader is missing: %w", missing)
			}
		}
	}
	if loads == 0 {
		return fmt.Errorf("exec format error: %s has nothing to load", path)
	}
	return nil
}

// identity is what a build left in a program. Both fields are empty for a program that is not written in Go.
type identity struct {
	goMain  string // path of the main package
	version string // "gpuaas-agent v1.2"; "" without a stamp
}

// readIdentity reads a program of at most maxDigest bytes.
func readIdentity(path string) (identity, error) {
	file, st, err := openProgram(path)
	if err != nil {
		return identity{}, err
	}
	defer file.Close()
	if st.Size() > maxDigest {
		return identity{}, errTooLarge
	}
	p, err := readProgram(file, st.Size())
	if err != nil {
		return identity{}, nil //nolint:nilerr // it can be read, and has none
	}
	main := p.goMain(file)
	id := identity{goMain: string(measure.Clip([]byte(scrub.Text(main)), 200))}
	if name := filepath.Base(agentMain); strings.HasSuffix(main, agentMain) {
		if v := readStamp(io.NewSectionReader(file, 0, maxDigest), name); v != "" {
			id.version = name + " " + v
		}
	}
	return id, nil
}

// readStamp finds the version that the build wrote for name; "" without one.
func readStamp(r io.Reader, name string) string {
	prefix, suffix, _ := strings.Cut(Stamped(name, "\x00"), "\x00")
	longest := len(prefix) + maxVersion + len(suffix)
	buf := make([]byte, 0, 256<<10)
	for {
		n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		for rest := buf; ; {
			i := bytes.Index(rest, []byte(prefix))
			if i < 0 {
				break
			}
			rest = rest[i+len(prefix):]
			v, _, ok := bytes.Cut(rest[:min(len(rest), maxVersion+len(suffix))], []byte(suffix))
			if ok && len(v) > 0 && plainName(string(v), "._+~-", maxVersion) {
				return string(v)
			}
		}
		if err != nil {
			return ""
		}
		kept := copy(buf, buf[max(0, len(buf)-longest):])
		buf = buf[:kept]
	}
}
