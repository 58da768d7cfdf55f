package bounded

import "bytes"

// Head keeps the first bytes that are written to it, and takes the others without keeping them. Its buffer is not
// embedded, since io.Copy would use its ReadFrom, which has no limit.
type Head struct {
	Most int    // bytes to keep
	Full func() // called at each write that has more; nil: nothing is called

	kept bytes.Buffer
	cut  bool
}

// Write implements io.Writer. It never fails.
func (h *Head) Write(p []byte) (int, error) {
	room := min(len(p), max(0, h.Most-h.kept.Len()))
	h.kept.Write(p[:room])
	if room < len(p) {
		h.cut = true
		if h.Full != nil {
			h.Full()
		}
	}
	return len(p), nil
}

// Bytes returns what was kept, until the next write.
func (h *Head) Bytes() []byte { return h.kept.Bytes() }

func (h *Head) String() string { return h.kept.String() }

// Cut reports whether more was written than was kept.
func (h *Head) Cut() bool { return h.cut }
