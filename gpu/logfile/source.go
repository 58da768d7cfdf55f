package logfile

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits of a source: bytes of a line that are taken at a time, bytes looked at to tell what the source is, bytes that
// may come out of compressed ones, and compressed data within compressed data.
const (
	maxLine     = 256 << 10
	maxHead     = 4 << 10
	maxUnpacked = 16 << 30
	maxPacked   = 3
)

// Refused means that a source is no text, or one of another kind than a log.
type Refused struct{ What, Do string }

func (r *Refused) Error() string { return r.What + ": " + r.Do }

// pipe is where unpacked data go.
const pipe = " | gpuaasctl gpu xid scan -"

// magics are begins of files that are refused.
var magics = []struct {
	begin string
	Refused
}{
	{"LPKSHHRH", Refused{"a file of systemd's journal", "journalctl --file FILE -k -o short-iso" + pipe}},
	{"\x28\xb5\x2f\xfd", Refused{"compressed by zstd", "zstd -dc FILE" + pipe}},
	{"\xfd7zXZ\x00", Refused{"compressed by xz", "xz -dc FILE" + pipe}},
	{"\x5d\x00\x00", Refused{"compressed by lzma", "xz -dc FILE" + pipe}},
	{"\x04\x22\x4d\x18", Refused{"compressed by lz4", "lz4 -dc FILE" + pipe}},
	{"\x89LZO", Refused{"compressed by lzop", "lzop -dc FILE" + pipe}},
	{"\x1f\x9d", Refused{"compressed by compress", "zcat FILE" + pipe}},
	{"PK\x03\x04", Refused{"a zip archive", "unzip -p FILE MEMBER" + pipe}},
	{"7z\xbc\xaf\x27\x1c", Refused{"a 7z archive", "7z x -so FILE MEMBER" + pipe}},
	{"KDUMP   ", Refused{"a crash dump", "crash or makedumpfile --dump-dmesg takes the log out of it"}},
	{"\x7fELF", Refused{"a program or a core", "this is no log"}},
	{"ElfFile\x00", Refused{"a Windows event log", "this is no log of a Linux kernel"}},
	{"SQLite format 3", Refused{"a database", "this is no log"}},
}

// source gives the lines of a log.
type source struct {
	in    *bufio.Reader
	block []byte
	at    int // the next line
	size  int // bytes in the block
	done  bool
	has   contents // of the block

	packed *packed // nil for a source that is not compressed
	cut    string
	err    error // of reading
}

// open tells what a source is, and unpacks it.
func open(in io.Reader) (*source, error) {
	s := &source{block: make([]byte, maxLine)}
	for range maxPacked {
		s.in = bufio.NewReaderSize(in, 2*maxHead)
		head, err := s.in.Peek(maxHead)
		if err != nil && !errors.Is(err, io.EOF) && len(head) == 0 {
			return s, err
		}
		r, err := unpack(s.in, head)
		if err != nil {
			return nil, err
		}
		if r == nil {
			return s.text(head)
		}
		s.packed = &packed{in: r, left: maxUnpacked}
		in = s.packed
	}
	return nil, &Refused{"compressed several times", "unpack it first"}
}

// unpack returns a reader of what is compressed, nil if it is not.
func unpack(in io.Reader, head []byte) (io.Reader, error) {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.begin)) {
			return nil, &m.Refused
		}
	}
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b\x08")):
		r, err := gzip.NewReader(in)
		if err != nil {
			return nil, &Refused{"damaged gzip data", err.Error()}
		}
		return r, nil
	case len(head) > 10 && bytes.HasPrefix(head, []byte("BZh")) && bytes.HasPrefix(head[4:], []byte("1AY&SY")):
		return bzip2.NewReader(in), nil
	case len(head) > 262 && bytes.Equal(head[257:262], []byte("ustar")):
		return nil, &Refused{"a tar archive", "tar -tf FILE lists its members, tar -xOf FILE MEMBER" + pipe}
	}
	return nil, nil
}

// packed reads at most left bytes of unpacked data. An error of the format ends them, as their end does.
type packed struct {
	in   io.Reader
	left int64
	cut  string
}

func (p *packed) Read(b []byte) (int, error) {
	if p.left <= 0 {
		p.cut = fmt.Sprintf("more than %d bytes of unpacked data", int64(maxUnpacked))
		return 0, io.EOF
	}
	n, err := p.in.Read(b[:min(int64(len(b)), p.left)])
	p.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		p.cut = "the compressed data are damaged or end early: " + err.Error()
		err = io.EOF
	}
	return n, err
}

// text decodes UTF-16, and refuses what is no text and no log.
func (s *source) text(head []byte) (*source, error) {
	if order := utf16Of(head); order != 0 {
		s.in = bufio.NewReaderSize(&wide{in: s.in, big: order > 0}, 2*maxHead)
		head, _ = s.in.Peek(maxHead)
	} else if isBinary(head) {
		return nil, &Refused{"binary data", "this is no log"}
	}
	if kind := reportOf(head); kind != "" {
		return nil, &Refused{kind, "this is no log; the kernel's is what dmesg or journalctl -k prints"}
	}
	return s, nil
}

// utf16Of returns -1 for UTF-16 with the low byte first, 1 with the high byte first, 0 for other text.
func utf16Of(head []byte) int {
	switch {
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}):
		return -1
	case bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		return 1
	}
	var zeros [2]int
	for i, c := range head {
		if c == 0 {
			zeros[i%2]++
		}
	}
	switch half := len(head) / 2; {
	case half < 4:
	case zeros[1] > half*3/4 && zeros[0] < half/8:
		return -1
	case zeros[0] > half*3/4 && zeros[1] < half/8:
		return 1
	}
	return 0
}

// isBinary reports whether too many bytes are control characters. Zero bytes do not count: a crash leaves them in logs.
func isBinary(head []byte) bool {
	controls, all := 0, 0
	for _, c := range head {
		switch {
		case c == 0:
			continue
		case c < ' ' && bytes.IndexByte([]byte("\t\n\v\f\r\b\a\x1b\x1e\x0e\x0f"), c) < 0:
			controls++
		}
		all++
	}
	return controls*20 > all
}

// next returns the next line with its end, or a part of a long one: more is true until its last part.
func (s *source) next() (line []byte, more, ok bool) {
	for {
		if i := bytes.IndexByte(s.block[s.at:s.size], '\n'); i >= 0 {
			line = s.block[s.at : s.at+i+1]
			s.at += i + 1
			return line, false, true
		}
		if s.done || (s.at == 0 && s.size == len(s.block)) {
			line = s.block[s.at:s.size]
			s.at, s.size = 0, 0
			return line, !s.done, len(line) > 0
		}
		s.fill()
	}
}

// fill reads more, until a line ends or the block is full, and looks at all of it at once.
func (s *source) fill() {
	s.size = copy(s.block, s.block[s.at:s.size])
	s.at = 0
	for s.size < len(s.block) {
		n, err := s.in.Read(s.block[s.size:])
		ended := bytes.IndexByte(s.block[s.size:s.size+n], '\n') >= 0
		s.size += n
		if err != nil {
			s.done = true
			if !errors.Is(err, io.EOF) {
				s.err = err
			}
			break
		}
		if ended {
			break
		}
	}
	b := s.block[:s.size]
	s.has = contents{
		hint: hinted(b), zero: bytes.IndexByte(b, 0) >= 0, banner: bytes.Contains(b, []byte(banner)),
		part: bytes.Contains(b, []byte(" P ")), bar: bytes.Contains(b, []byte(" | ")),
		escape: bytes.Contains(b, []byte(`\u00`)),
	}
}

// contents says what a block may have: most blocks of a log have none of it, and then no line of them does.
type contents struct{ hint, zero, banner, part, bar, escape bool }

// raw reads n bytes.
func (s *source) raw(n int) ([]byte, bool) {
	b := make([]byte, n)
	got := copy(b, s.block[s.at:s.size])
	s.at += got
	if got == n {
		return b, true
	}
	more, err := io.ReadFull(s.in, b[got:])
	return b[:got+more], err == nil
}

// end returns why the source ended early.
func (s *source) end() (string, error) {
	if s.packed != nil && s.cut == "" {
		s.cut = s.packed.cut
	}
	return s.cut, s.err
}

// wide decodes UTF-16.
type wide struct {
	in   *bufio.Reader
	big  bool
	high rune
	out  []byte
}

func (w *wide) Read(b []byte) (int, error) {
	for len(w.out) < len(b) {
		var pair [2]byte
		if _, err := io.ReadFull(w.in, pair[:]); err != nil {
			if len(w.out) > 0 {
				break
			}
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = io.EOF
			}
			return 0, err
		}
		unit := rune(pair[0]) | rune(pair[1])<<8
		if w.big {
			unit = rune(pair[1]) | rune(pair[0])<<8
		}
		w.put(unit)
	}
	n := copy(b, w.out)
	w.out = append(w.out[:0], w.out[n:]...)
	return n, nil
}

func (w *wide) put(unit rune) {
	if utf16.IsSurrogate(unit) {
		full := utf16.DecodeRune(w.high, unit)
		w.high = unit
		if full == utf8.RuneError {
			return
		}
		unit = full
	}
	w.high = 0
	if unit != 0xfeff {
		w.out = utf8.AppendRune(w.out, unit)
	}
}
