package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Sizes of a tar archive: each file has a header and fills blocks, and two blocks of zeros end it.
const tarBlock, tarEnd = 512, 1024

// maxSaid bounds, in bytes, each foreign string in a manifest. There are some thirty.
const maxSaid = 4 << 10

// clip shortens texts from nodes and platform, so that an oversized one does not prevent the bundle from being
// packed.
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

// fit leaves out the files that Open would refuse: those that are too large, and of the rest the largest ones until
// their number and their sum are within the limits. The manifest notes each omission at its source.
func (m *Manifest) fit() {
	sum := int64(bounded.Manifest().Bytes) + 2*tarBlock + tarEnd // of the manifest, at the most
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

// archived is what a file takes in the archive.
func archived(f File) int64 {
	return tarBlock + (int64(len(f.Data))+tarBlock-1)/tarBlock*tarBlock
}

// leaveOut drops a file. Its source's Why names the first file that was dropped.
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
