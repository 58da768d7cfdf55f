// Package kmsg reads the kernel log and finds NVIDIA's errors in it: XIDs of GPUs, SXIDs of NVSwitches, and a GPU that
// has fallen off the bus without either. It needs no driver library, so it still works if that hangs.
//
// What it did not read is part of its result: records that the kernel overwrote, an earlier boot, a log that may not be
// opened. "No error" and "not read" are different answers, see Coverage. It judges nothing; package xid has the meaning
// of the codes. It imports only the standard library, and everything that it stores is bounded.
package kmsg

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"
)

// maxRecord is the kernel's own bound on one read of /dev/kmsg (CONSOLE_EXT_LOG_MAX, later PRINTKRB_RECORD_MAX). A
// smaller buffer makes the read fail with EINVAL and lose the record.
const maxRecord = 8 << 10

// errMalformed means that a record does not have the kernel's format.
var errMalformed = errors.New("no record of the kernel log")

// Record is one record of /dev/kmsg.
type Record struct {
	Facility  int           // 0 is the kernel; a program that writes to /dev/kmsg cannot use it
	Level     int           // 0 (emergency) to 7 (debug)
	Seq       uint64        // counts all records of a boot, from 0
	At        time.Duration // since boot, by the kernel's clock
	Fragment  byte          // '-' a complete line; 'c' or '+' a part of one
	Caller    string        // "T1946", "C0"; "" if the kernel does not print it
	Text      string        // unescaped; may have several lines
	Subsystem string        // from the dictionary
	Device    string        // from the dictionary: "+pci:0000:3b:00.0"
}

// ParseRecord parses one record as a read of /dev/kmsg returns it, for readers of other lines than the driver's.
func ParseRecord(b []byte) (Record, error) {
	r, body, err := parseHead(b)
	if err == nil {
		r.read(body)
	}
	return r, err
}

// parseHead parses the header of one record of /dev/kmsg ("4,1234,5678901,-,caller=T1;text", followed by dictionary
// lines that begin with a blank), and returns the text and the dictionary as the kernel wrote them. It ignores
// additional header fields, as the kernel's documentation requires.
func parseHead(b []byte) (Record, []byte, error) {
	b = b[:min(len(b), maxRecord)]
	head, body, ok := bytes.Cut(b, []byte{';'})
	if !ok {
		return Record{}, nil, errMalformed
	}
	r := Record{Fragment: '-'}
	prio, rest, _ := bytes.Cut(head, []byte{','})
	seq, rest, _ := bytes.Cut(rest, []byte{','})
	at, rest, _ := bytes.Cut(rest, []byte{','})
	p, err := number(prio)
	if err != nil || p > 1<<16 {
		return Record{}, nil, errMalformed
	}
	r.Facility, r.Level = int(p>>3), int(p&7)
	if r.Seq, err = number(seq); err != nil {
		return Record{}, nil, errMalformed
	}
	us, err := number(at)
	if err != nil || us > uint64(1<<63-1)/1000 {
		return Record{}, nil, errMalformed
	}
	r.At = time.Duration(us) * time.Microsecond
	flags, rest, more := bytes.Cut(rest, []byte{','})
	if len(flags) > 0 {
		r.Fragment = flags[0]
	}
	for more {
		var field []byte
		field, rest, more = bytes.Cut(rest, []byte{','})
		if v, ok := bytes.CutPrefix(field, []byte("caller=")); ok {
			r.Caller = unescape(v, 64)
		}
	}
	return r, body, nil
}

// read parses the text and the dictionary.
func (r *Record) read(body []byte) {
	text, dict, _ := bytes.Cut(body, []byte{'\n'})
	r.Text = unescape(text, maxRecord)
	r.dictionary(dict)
}

// dictionary reads the two keys that the kernel documents.
func (r *Record) dictionary(dict []byte) {
	for len(dict) > 0 {
		var line []byte
		line, dict, _ = bytes.Cut(dict, []byte{'\n'})
		if len(line) == 0 || line[0] != ' ' {
			continue
		}
		key, value, _ := bytes.Cut(line[1:], []byte{'='})
		switch string(key) {
		case "SUBSYSTEM":
			r.Subsystem = unescape(value, 64)
		case "DEVICE":
			r.Device = unescape(value, 128)
		}
	}
}

// number parses a decimal number without a sign.
func number(b []byte) (uint64, error) {
	if len(b) == 0 || len(b) > 20 || b[0] < '0' || b[0] > '9' {
		return 0, errMalformed
	}
	return strconv.ParseUint(string(b), 10, 64)
}

// unescape returns the text of a record, at most most bytes. The kernel writes unprintable bytes and the backslash as
// \xNN. Control characters and invalid UTF-8 become the replacement character; newlines stay.
func unescape(b []byte, most int) string {
	b = b[:min(len(b), most)]
	plain := true
	for _, c := range b {
		if c < ' ' || c >= 0x7f || c == '\\' {
			plain = false
			break
		}
	}
	if plain {
		return string(b)
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c == '\\' && i+3 < len(b) && b[i+1] == 'x' {
			if v, err := strconv.ParseUint(string(b[i+2:i+4]), 16, 8); err == nil {
				c, i = byte(v), i+3
			}
		}
		out = append(out, c)
	}
	return strings.Map(func(r rune) rune {
		if (r < ' ' && r != '\n' && r != '\t') || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(string(out), "\ufffd"))
}
