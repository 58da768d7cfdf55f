package step

import (
	"crypto/sha256"
	"fmt"
	"slices"
)

// Redacted replaces a secret text, as in reports of walks.
const Redacted = "[redacted]"

// Redacted returns d without its secret texts, for display.
func (d Drill) Redacted() Drill {
	return d.secrets(func(text, sum *string) { *text, *sum = Redacted, "" })
}

// Seal returns d with its secret texts replaced by their digests, so that it may be on a disk, and the texts by
// digest.
func (d Drill) Seal() (Drill, map[string]string) {
	texts := map[string]string{}
	return d.secrets(func(text, sum *string) {
		if *text == "" {
			return
		}
		*sum = fmt.Sprintf("%x", sha256.Sum256([]byte(*text)))
		texts[*sum], *text = *text, ""
	}), texts
}

// secrets returns a copy of d in which f has changed each secret text and its digest.
func (d Drill) secrets(f func(text, sum *string)) Drill {
	d.Steps = slices.Clone(d.Steps)
	for i, s := range d.Steps {
		d.Steps[i].Changes = slices.Clone(s.Changes)
		for n, c := range s.Changes {
			if c.File != nil && c.File.Secret {
				file := *c.File
				f(&file.Text, &file.SHA256)
				d.Steps[i].Changes[n].File = &file
			}
			if c.Mount != nil && c.Mount.Secret {
				mount := *c.Mount
				f(&mount.Text, &mount.SHA256)
				d.Steps[i].Changes[n].Mount = &mount
			}
		}
	}
	return d
}
