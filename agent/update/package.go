package update

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/internal/durable"
)

const (
	dirVersions = "versions"
	program     = "gpuaas-agent"
)

// ErrDigest is returned for a file whose digest is not the requested one.
var ErrDigest = errors.New("the digest is another one")

// Packages are the builds on disk, each in a folder named after its digest.
type Packages struct{ Disk durable.Dir }

func name(sha string) string { return dirVersions + "/" + sha + "/" + program }

// Path returns the path of a build's program.
func (p Packages) Path(sha string) string { return p.Disk.Path(name(sha)) }

// Check returns why a build cannot be started; nil if its file is intact.
func (p Packages) Check(sha string) error {
	f, err := p.Disk.Open(name(sha))
	if err != nil {
		return fmt.Errorf("look at the package: %w", err)
	}
	defer f.Close()
	got, err := digest(f)
	if err != nil {
		return fmt.Errorf("read the package: %w", err)
	}
	if got != sha {
		return fmt.Errorf("look at the package %s: %w, %s", p.Path(sha), ErrDigest, got)
	}
	return nil
}

// Fetch makes sure that a build's package is on disk and intact; get passes the platform's copy to take, and
// returns take's error. The package gets its name only once its digest is verified and it is a program for this
// machine.
func (p Packages) Fetch(sha string, get func(take func(io.Reader) error) error) error {
	if p.Check(sha) == nil {
		return nil
	}
	err := get(func(body io.Reader) error {
		sum := sha256.New()
		head := &header{}
		return p.Disk.Stream(name(sha), body, wire.MaxArtifact, 0o755, io.MultiWriter(sum, head), func() error {
			if got := hex.EncodeToString(sum.Sum(nil)); got != sha {
				return fmt.Errorf("the platform's package: %w, %s", ErrDigest, got)
			}
			return head.runsHere()
		})
	})
	if err != nil {
		return fmt.Errorf("fetch the package: %w", errors.Join(err, p.Disk.Remove(dirVersions+"/"+sha)))
	}
	return nil
}

// Prune removes every build except those in keep.
func (p Packages) Prune(keep []string) error {
	names, err := p.Disk.List(dirVersions)
	for _, n := range names {
		if !slices.Contains(keep, n) {
			err = errors.Join(err, p.Disk.Remove(dirVersions+"/"+n))
		}
	}
	return err
}

// Digest gives the digest of a file.
func Digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("take a digest: %w", err)
	}
	defer f.Close()
	return digest(f)
}

func digest(r io.Reader) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// header keeps the first bytes of what is written to it.
type header struct{ b []byte }

// Write implements io.Writer.
func (h *header) Write(p []byte) (int, error) {
	if room := 20 - len(h.b); room > 0 {
		h.b = append(h.b, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// The relevant parts of an ELF header; debug/elf would link decompression and DWARF into the agent.
const (
	elfMagic         = "\x7fELF\x02\x01" // 64 bit, little endian
	elfExec, elfDyn  = 2, 3
	elfX86, elfARM64 = 62, 183
)

// runsHere checks in the ELF header that the program is for this kind of machine. It reads only the first bytes;
// whether the program works is for the handshake to show.
func (h *header) runsHere() error {
	if len(h.b) < 20 || string(h.b[:6]) != elfMagic {
		return errors.New("the package is not a program for a 64-bit little-endian machine")
	}
	kind, machine := int(h.b[16])|int(h.b[17])<<8, int(h.b[18])|int(h.b[19])<<8
	want := map[string]int{"amd64": elfX86, "arm64": elfARM64}[runtime.GOARCH]
	if (kind != elfExec && kind != elfDyn) || machine != want {
		return fmt.Errorf("the package is for machine %d, this one is %d", machine, want)
	}
	return nil
}
