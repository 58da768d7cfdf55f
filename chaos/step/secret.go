package step

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// Redacted replaces a text that is never shown, as in reports of walks.
const Redacted = "[redacted]"

// Redacted is d without the texts that it calls secret: what may be shown.
func (d Drill) Redacted() Drill {
	return d.secrets(func(text, sum *string) { *text, *sum = Redacted, "" })
}

// Seal is d with the digests of its secret texts in their places: what may lie on a disk. The texts are given by
// digest.
func (d Drill) Seal() (Drill, map[string]string) {
	texts := map[string]string{}
	return d.secrets(func(text, sum *string) {
		if *text == "" {
			return
		}
		of := sha256.Sum256([]byte(*text))
		*sum = hex.EncodeToString(of[:])
		texts[*sum], *text = *text, ""
	}), texts
}

// secrets is a copy of d in which f has changed each secret text, and its digest.
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
