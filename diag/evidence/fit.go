package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Sizes in a tar archive: each file has a header and is padded to blocks, and two zero blocks end it.
const tarBlock, tarEnd = 512, 1024

// maxSaid bounds, in bytes, each string from outside in a manifest, which has some thirty.
const maxSaid = 4 << 10

// clip shortens texts from nodes and platform, so that a huge one cannot prevent the bundle from being packed.
func (m *Manifest) clip() {
	words := []*string{&m.InstanceID, &m.WorkflowID}
	for i := range m.Sources {
		words = append(words, &m.Sources[i].Why)
	}
	for i := range m.Clocks {
		words = append(words, &m.Clocks[i].Host)
	}
	for _, w := range words {
		if n := len(*w) - maxSaid; n > 0 {
			*w = strings.ToValidUTF8((*w)[:maxSaid], "") + fmt.Sprintf(" ... and %d more bytes", n)
		}
	}
}

// fit removes the files that Open would refuse: those that are too large, then the largest ones until number and total
// size are within the limits. Each omission is noted at the file's source.
func (m *Manifest) fit() {
	sum := int64(bounded.Manifest().Bytes) + 2*tarBlock + tarEnd // starts with the maximum size of the manifest
	for _, f := range m.Files {
		sum += archived(f)
	}
	bySize := slices.Clone(m.Files)
	slices.SortStableFunc(bySize, func(a, b File) int {
		return cmp.Or(cmp.Compare(len(b.Data), len(a.Data)), cmp.Compare(a.Path, b.Path))
	})
	number := len(bySize)
	for _, f := range bySize {
		why := ""
		switch {
		case len(f.Data) > bounded.ArchivedFile:
			why = fmt.Sprintf("a file of a bundle has at most %d MiB", bounded.ArchivedFile>>20)
		case sum > bounded.Archive:
			why = fmt.Sprintf("a bundle has at most %d MiB", bounded.Archive>>20)
		case number > bounded.ArchivedFiles:
			why = fmt.Sprintf("a bundle has at most %d files", bounded.ArchivedFiles)
		default:
			return // those that follow are smaller
		}
		sum, number = sum-archived(f), number-1
		m.leaveOut(f, why)
	}
}

// archived returns the size of a file in the archive.
func archived(f File) int64 {
	return tarBlock + (int64(len(f.Data))+tarBlock-1)/tarBlock*tarBlock
}

// leaveOut removes a file. Its source's Why names the first file that was removed.
func (m *Manifest) leaveOut(f File, why string) {
	m.Files = slices.DeleteFunc(m.Files, func(o File) bool { return o.Path == f.Path })
	m.Whole = false
	why = fmt.Sprintf("left out: %s (%d bytes): %s", f.Path, len(f.Data), why)
	for i := range m.Sources {
		g := &m.Sources[i]
		if g.Source != f.Source {
			continue
		}
		if g.Status == GotWhole {
			g.Status, g.Why = GotPart, why
		}
		return
	}
	m.Sources = append(m.Sources, Gathered{Source: f.Source, Status: GotPart, Why: why})
}
