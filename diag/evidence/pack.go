package evidence

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Pack writes the archive: the manifest, then its files by name. The same manifest and files give the same bytes: every
// time in the archive is the manifest's end. It sets the sizes and digests of m.Files. It leaves out files that Open
// would refuse, and notes that at their source.
func Pack(w io.Writer, m *Manifest) error {
	m.fit()
	m.clip()
	slices.SortFunc(m.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	for i := range m.Files {
		f := &m.Files[i]
		if err := checkPath(f.Path); err != nil {
			return err
		}
		if i > 0 && m.Files[i-1].Path == f.Path {
			return fmt.Errorf("two files are named %s", f.Path)
		}
		f.Size, f.SHA256 = int64(len(f.Data)), digest(f.Data)
	}
	head, err := JSON(m)
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	if err := bounded.Check(head, bounded.Manifest()); err != nil {
		return fmt.Errorf("the manifest could not be read again: %w", err)
	}
	zip := gzip.NewWriter(w)
	t := tar.NewWriter(zip)
	err = put(t, ManifestName, head, m.EndedAt.Time)
	for _, f := range m.Files {
		err = errors.Join(err, put(t, f.Path, f.Data, m.EndedAt.Time))
	}
	return errors.Join(err, t.Close(), zip.Close())
}

func put(t *tar.Writer, name string, data []byte, at time.Time) error {
	err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), ModTime: at.Truncate(time.Second),
		Typeflag: tar.TypeReg, Format: tar.FormatUSTAR})
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	_, err = t.Write(data)
	return err
}

func digest(data []byte) string {
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// checkPath refuses names that would escape from the folder in which a bundle is unpacked.
func checkPath(name string) error {
	if name == "" || name == ManifestName || path.IsAbs(name) || path.Clean(name) != name ||
		strings.HasPrefix(name, "..") || strings.ContainsAny(name, "\\\x00") {
		return fmt.Errorf("%q cannot be a file of a bundle", name)
	}
	return nil
}

// ErrBundle is wrapped by every error about a damaged bundle.
var ErrBundle = errors.New("the bundle is not as it was packed")

// ErrNoBundle is wrapped by every error about a file that is not a bundle at all.
var ErrNoBundle = errors.New("not an evidence bundle")

// Open reads an archive and checks it against its manifest: every file is present and unchanged, and there are no
// others. It fills in the files' Data. An error about the contents wraps ErrBundle and lists all damage; the error for
// any other file wraps ErrNoBundle.
func Open(r io.Reader) (*Manifest, error) {
	m, found, err := unpack(r)
	if err != nil {
		return nil, err
	}
	var wrong []string
	for i := range m.Files {
		f := &m.Files[i]
		data, ok := found[f.Path]
		switch err := checkPath(f.Path); {
		case err != nil:
			wrong = append(wrong, err.Error())
		case !ok:
			wrong = append(wrong, f.Path+" is missing")
		case int64(len(data)) != f.Size || digest(data) != f.SHA256:
			wrong = append(wrong, f.Path+" was changed")
		}
		f.Data = data
		delete(found, f.Path)
	}
	for name := range found {
		wrong = append(wrong, name+" is not in the manifest")
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return m, fmt.Errorf("%w: %s", ErrBundle, strings.Join(wrong, ", "))
	}
	return m, nil
}

// unpack reads the whole archive.
func unpack(r io.Reader) (*Manifest, map[string][]byte, error) {
	input := bufio.NewReader(r)
	if err := isGzip(input); err != nil {
		return nil, nil, err
	}
	zip, err := gzip.NewReader(input)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrBundle, err)
	}
	zip.Multistream(false)
	limited := &io.LimitedReader{R: zip, N: bounded.Archive + 1}
	head := bufio.NewReader(limited)
	if err := isTar(head); err != nil {
		return nil, nil, err
	}
	t := tar.NewReader(head)
	m, found := (*Manifest)(nil), map[string][]byte{}
	for {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF) && m == nil:
			return nil, nil, fmt.Errorf("%w: it has no %s", ErrNoBundle, ManifestName)
		case errors.Is(err, io.EOF):
			if err := endsHere(head, input); err != nil {
				return nil, nil, fmt.Errorf("%w: %w", ErrBundle, err)
			}
			return m, found, nil
		case err != nil:
			return nil, nil, fmt.Errorf("%w: %w", ErrBundle, err)
		case m == nil && h.Name != ManifestName:
			return nil, nil, withoutManifest(t)
		case h.Typeflag != tar.TypeReg:
			return nil, nil, fmt.Errorf("%w: %s is not a regular file", ErrBundle, h.Name)
		}
		data, err := unpackFile(t, h, limited.N, len(found))
		if err != nil {
			return nil, nil, err
		}
		if m == nil {
			if m, err = readManifest(data); err != nil {
				return nil, nil, err
			}
			continue
		}
		if _, twice := found[h.Name]; twice {
			return nil, nil, fmt.Errorf("%w: %s is there twice", ErrBundle, h.Name)
		}
		found[h.Name] = data
	}
}

// unpackFile reads one file of an archive. left is how many bytes may still be unpacked, number how many files were.
// The size in the header is trusted only up to the limits, so memory is bounded by the file's real size.
func unpackFile(t *tar.Reader, h *tar.Header, left int64, number int) ([]byte, error) {
	most := int64(bounded.ArchivedFile)
	if h.Name == ManifestName {
		most = int64(bounded.Manifest().Bytes)
	}
	switch {
	case number >= bounded.ArchivedFiles:
		return nil, tooMuch("it", "files", bounded.ArchivedFiles)
	case h.Size > most:
		return nil, tooMuch(h.Name, "bytes", int(most))
	case h.Size > left:
		return nil, tooMuch("it", "bytes", bounded.Archive)
	}
	data := make([]byte, h.Size)
	if _, err := io.ReadFull(t, data); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrBundle, h.Name, err)
	}
	return data, nil
}

// tooMuch is the error for an archive that exceeds a limit of bundles.
func tooMuch(what, of string, most int) error {
	return fmt.Errorf("%w: %s has %w", ErrNoBundle, what, &bounded.LimitError{What: of, Most: most})
}

// endsHere reads to the end after the tar's end: only gzip's checksum may follow, since appended data is in no digest.
func endsHere(unpacked, packed io.Reader) error {
	for _, r := range [...]io.Reader{unpacked, packed} {
		n, err := io.Copy(io.Discard, r)
		if err != nil {
			return err
		}
		if n > 0 {
			return fmt.Errorf("%d bytes are behind its end", n)
		}
	}
	return nil
}

// isGzip returns an error unless the file begins like a gzip stream.
func isGzip(r *bufio.Reader) error {
	switch magic, _ := r.Peek(2); {
	case len(magic) == 0:
		return fmt.Errorf("%w: it is empty", ErrNoBundle)
	case !bytes.Equal(magic, []byte{0x1f, 0x8b}):
		return fmt.Errorf("%w: not a gzip file", ErrNoBundle)
	}
	return nil
}

// isTar returns an error unless the stream is a tar archive, possibly a truncated one.
func isTar(r *bufio.Reader) error {
	const block, magicAt = 512, 257
	head, err := r.Peek(block)
	switch {
	case errors.Is(err, io.EOF), err == nil && head[0] != 0 && !bytes.HasPrefix(head[magicAt:], []byte("ustar")):
		return fmt.Errorf("%w: there is no tar archive in it", ErrNoBundle)
	}
	return nil
}

// withoutManifest is the error for an archive that begins with another file: a bundle whose files were reordered, or
// another archive.
func withoutManifest(t *tar.Reader) error {
	for {
		h, err := t.Next()
		if err != nil {
			return fmt.Errorf("%w: it has no %s", ErrNoBundle, ManifestName)
		}
		if h.Name == ManifestName {
			return fmt.Errorf("%w: it does not begin with its manifest", ErrBundle)
		}
	}
}

func readManifest(data []byte) (*Manifest, error) {
	m := &Manifest{}
	var of struct{ APIVersion, Kind string }
	err := bounded.Unmarshal(data, &of, bounded.Manifest())
	if errors.Is(err, bounded.ErrLimit) {
		return nil, fmt.Errorf("%w: its manifest: %w", ErrNoBundle, err)
	}
	if err == nil && (of.APIVersion != diag.APIVersion || of.Kind != KindBundle) {
		return nil, fmt.Errorf("%w: its manifest is that of kind %q, version %q", ErrNoBundle, of.Kind, of.APIVersion)
	}
	if _, err := bounded.Tolerant(data, m, bounded.Manifest()); err != nil {
		return nil, fmt.Errorf("%w: the manifest: %w", ErrBundle, err)
	}
	return m, nil
}
