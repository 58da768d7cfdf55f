package kmsg

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"syscall"
	"time"
)

// Limits: records that one Drain reads, so that a flood does not block its caller, and lines of one record.
const (
	maxDrain = 1_000_000
	maxLines = 16
)

// Batch is what one Drain found.
type Batch struct {
	Events   []Event
	Records  int  // number of records read
	CaughtUp bool // nothing was left to read
}

// Reader reads the kernel log from a source that behaves like /dev/kmsg: one record per read, EPIPE once after the
// kernel overwrote records that were not read, EAGAIN if none is left. It is for one goroutine.
type Reader struct {
	source   io.Reader
	uptime   func() time.Duration
	coverage Coverage
	finder   Finder
	buffer   []byte
	overrun  bool
	skipping bool   // skip records that an earlier reader of this boot has read
	skipped  Record // the last of those

	pending Record // a record whose line may continue in the next one
	have    bool
	body    []byte        // of the pending record
	again   uint64        // number of equal records after it: a flood is compared, not parsed
	last    time.Duration // when the last of them was printed

	tally Tally
}

// NewReader continues where the reader with the coverage so far ended: after the same record in the same boot, or at
// the oldest record of another boot. uptime returns the time since boot; nil: use the time of the last record.
func NewReader(source io.Reader, boot string, so Coverage, uptime func() time.Duration) *Reader {
	r := &Reader{source: source, uptime: uptime, coverage: so, buffer: make([]byte, maxRecord)}
	r.coverage.Gaps = append([]Gap(nil), so.Gaps...)
	r.coverage.start(boot)
	r.skipping = r.coverage.Next > 0
	r.overrun = r.skipping // a kernel that no longer has the next record silently returns the oldest one
	return r
}

// NotCovered returns the coverage of a log that cannot be read, with the reason.
func NotCovered(so Coverage, why error) Coverage {
	so.Blind = why.Error()
	return so
}

// Coverage returns what has been read so far.
func (r *Reader) Coverage() Coverage {
	c := r.coverage
	c.Gaps = append([]Gap(nil), c.Gaps...)
	return c
}

// Drain reads the available records, at most limit (0: a million), and returns the driver's reports in them. After an
// error other than io.EOF the coverage is blind; the batch has what was found before.
func (r *Reader) Drain(limit int) (Batch, error) {
	if limit <= 0 || limit > maxDrain {
		limit = maxDrain
	}
	b, err := r.drain(limit)
	r.flush()
	b.Events = r.tally.Events
	r.coverage.Unkept += r.tally.Unkept
	r.tally = Tally{}
	return b, err
}

func (r *Reader) drain(limit int) (b Batch, err error) {
	for range limit {
		n, err := r.source.Read(r.buffer)
		switch {
		case errors.Is(err, syscall.EAGAIN):
			b.CaughtUp = true
			r.idle()
			return b, nil
		case errors.Is(err, syscall.EPIPE):
			r.flush()
			r.overrun = true
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EINVAL): // a record beyond the kernel's own limit; the next read continues after it
			r.coverage.Malformed++
		case n == 0 && err == nil: // not a kernel log, such as a container's /dev/null
			r.coverage.Blind = io.ErrNoProgress.Error()
			return b, io.ErrNoProgress
		case err != nil && n == 0:
			if !errors.Is(err, io.EOF) {
				r.coverage.Blind = err.Error()
			}
			return b, err
		default:
			b.Records++
			r.record(r.buffer[:n])
		}
	}
	return b, nil
}

// idle records that nothing is left, so everything printed until now was read.
func (r *Reader) idle() {
	if r.skipping && r.skipped.Seq+1 < r.coverage.Next {
		r.coverage.back(r.skipped)
	}
	r.skipping = false
	if r.uptime != nil {
		r.coverage.Until = max(r.coverage.Until, r.uptime())
	}
}

func (r *Reader) record(raw []byte) {
	rec, body, err := parseHead(raw)
	if err != nil {
		r.coverage.Malformed++
		return
	}
	if r.skipping && rec.Seq < r.coverage.Next {
		r.skipped = rec
		return
	}
	r.skipping = false
	r.coverage.took(&rec, r.overrun)
	r.overrun = false
	if rec.Facility != 0 {
		r.coverage.Foreign++
		return
	}
	part := rec.Fragment != '-' && r.have
	if !part && r.have && bytes.Equal(body, r.body) {
		r.again++
		r.last = rec.At
		return
	}
	if !part && !mentions(body) {
		r.flush()
		return
	}
	rec.read(body)
	if part && r.goesOn(&rec) {
		r.pending.Text += rec.Text
		r.body = r.body[:0]
		return
	}
	r.flush()
	r.pending, r.have, r.last = rec, true, rec.At
	r.body = append(r.body[:0], body...)
}

// mentions reports whether a record may be of one of NVIDIA's drivers.
func mentions(body []byte) bool {
	return bytes.Contains(body, []byte("NVRM")) || bytes.Contains(body, []byte("nvswitch")) ||
		bytes.Contains(body, []byte("nv_drm")) || bytes.Contains(body, []byte("nvidia-"))
}

// goesOn reports whether a fragment continues the pending line. A fragment that begins like the driver's lines is a new
// line, and so is one of another task. Depending on the version, kernels mark the first part or the later ones.
func (r *Reader) goesOn(part *Record) bool {
	other := part.Caller != "" && r.pending.Caller != "" && part.Caller != r.pending.Caller
	fits := len(r.pending.Text)+len(part.Text) <= maxRecord && !strings.HasSuffix(r.pending.Text, "\n")
	return !other && r.again == 0 && fits &&
		!strings.HasPrefix(part.Text, "NVRM:") && !strings.HasPrefix(part.Text, "nvidia-nvswitch")
}

// flush searches the pending record.
func (r *Reader) flush() {
	if !r.have {
		return
	}
	r.have = false
	lines := 0
	for text := range strings.SplitSeq(r.pending.Text, "\n") {
		if lines++; lines > maxLines {
			break
		}
		if l, ok := r.finder.Find(text); ok {
			r.tally.Add(Event{
				Line: l, BootID: r.coverage.BootID, Seq: r.pending.Seq, First: r.pending.At, Last: r.last, Count: 1 + r.again,
			})
		}
	}
	r.finder.client, r.again = 0, 0
}
