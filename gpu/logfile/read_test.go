package logfile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"
)

// gzipped packs text.
func gzipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// wideText encodes text as UTF-16.
func wideText(text string, big, mark bool) string {
	units := utf16.Encode([]rune(text))
	if mark {
		units = append([]uint16{0xfeff}, units...)
	}
	var b []byte
	for _, u := range units {
		if big {
			b = append(b, byte(u>>8), byte(u))
		} else {
			b = append(b, byte(u), byte(u>>8))
		}
	}
	return string(b)
}

// TestEncodings: a log counts whatever its bytes are packed or encoded as.
func TestEncodings(t *testing.T) {
	text := "[    1.5] eth0: link up ü\r\n[171167.620236] " + fault + "\r\n"
	packed := string(gzipped(t, text))
	for name, log := range map[string]string{
		"UTF-8 with a mark": "\ufeff" + text,
		"UTF-16":            wideText(text, false, true), "UTF-16, high byte first": wideText(text, true, true),
		"UTF-16 without a mark": wideText(text, false, false), "the same, high byte first": wideText(text, true, false),
		"UTF-16 behind UTF-8": "[    1.0] a\n" + wideText(text, false, false),
		"gzip":                packed, "gzip in gzip": string(gzipped(t, packed)),
		"two parts of gzip": string(gzipped(t, "[    1.5] a\n")) + packed,
		"UTF-16 in gzip":    string(gzipped(t, wideText(text, false, true))),
		"another encoding":  "Apr 20 10:00:00 gpu-7 tenant[1]: \xe4\xf6\n" + text,
	} {
		if got := says(t, log); got != "1 counted, at 171167.620236" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestBzip2: the standard library only unpacks it, so the bytes are a file's.
func TestBzip2(t *testing.T) {
	const packed = "" +
		"\x42\x5a\x68\x39\x31\x41\x59\x26\x53\x59\x1c\xc8\x39\x4d\x00\x00\x27\xdf\x80\x40\x10\x40\x65\x7f\xb2\x08" +
		"\xa3\x53\x4a\x37\x6f\xce\x20\x20\x00\x75\x15\x1a\x19\x06\x80\x06\x8d\x03\xd4\xc4\x19\x01\x8f\x24\xd3\xd4" +
		"\x3d\x20\x00\x00\x00\x00\x24\x5d\x21\x7b\x71\x8c\xef\x1c\x87\xbb\xd8\x4f\x41\xaf\x06\xf4\xb2\x54\x63\x52" +
		"\x57\x30\x09\xf7\x09\x53\x49\x49\x58\xb7\x0b\x4e\x58\x71\x12\x78\x47\x41\x91\xb1\xb9\x0a\x50\x84\xc6\x0a" +
		"\x18\x25\x64\x5c\x0a\x15\x6b\x04\x68\x72\xf4\x27\x98\xc7\xca\xeb\x7c\x1b\xa2\x6f\x6c\x98\x27\xc5\xa7\x69" +
		"\x0a\x05\x7a\x39\x92\x09\x8f\x82\xe5\x7e\x2e\xe4\x8a\x70\xa1\x20\x39\x90\x72\x9a"
	if got := says(t, packed); got != "1 counted, at 171167.620236" {
		t.Error(got)
	}
}

// TestCutArchives: what was read of a damaged archive counts, and that there was more is said.
func TestCutArchives(t *testing.T) {
	var text strings.Builder
	text.WriteString("[171167.620236] " + fault + "\n")
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		text.WriteString("[171168.000000] x " + itoa(random.IntN(1<<30)) + "\n")
	}
	packed := gzipped(t, text.String())
	damaged := bytes.Clone(packed)
	for i := range 50 {
		damaged[len(damaged)/2+i] ^= 0x5a
	}
	for name, b := range map[string][]byte{
		"cut": packed[:len(packed)/2], "damaged": damaged, "with more behind it": append(bytes.Clone(packed), "more"...),
	} {
		log, err := Read(bytes.NewReader(b))
		if err != nil || log.Cut == "" || len(log.Found) != 1 {
			t.Errorf("%s: %d found, cut %q, %v", name, len(log.Found), log.Cut, err)
		}
	}
	if _, err := Read(bytes.NewReader(packed[:5])); err == nil {
		t.Error("no gzip data are read")
	}
}

// TestRefused: what is no text, or one of another kind, is named, with what to do.
func TestRefused(t *testing.T) {
	tar := make([]byte, 600)
	copy(tar, "sos/dmesg")
	copy(tar[257:], "ustar")
	for text, want := range map[string]string{
		"LPKSHHRH\x00\x00\x00MESSAGE=" + fault:  "journalctl --file FILE",
		"\x28\xb5\x2f\xfd\x04":                  "zstd -dc",
		"\xfd7zXZ\x00\x00":                      "xz -dc",
		"\x04\x22\x4d\x18":                      "lz4 -dc",
		"PK\x03\x04abc":                         "unzip -p",
		"\x7fELF\x02\x01":                       "a program or a core",
		string(tar):                             "tar -xOf",
		string(gzipped(t, string(tar))):         "tar -xOf",
		strings.Repeat("\x01\x02\x03\x90", 100): "binary data",
		"\n==============NVSMI LOG==============\n\nTimestamp : x\n":                            "nvidia-smi -q",
		"<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n": "nvidia-smi -q -x",
		"# HELP DCGM_FI_DEV_SM_CLOCK SM clock\n":                                                "dcgm-exporter",
		"index, name, pci.bus_id\n0, NVIDIA H200, 0\n":                                          "nvidia-smi --query-gpu",
		"Mon Apr 20 10:00:00 2026\n+----+\n| NVIDIA-SMI 580 |\n":                                "the table of nvidia-smi",
	} {
		_, err := Read(strings.NewReader(text))
		var refused *Refused
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

// TestNothing: an empty log and one of blanks say nothing.
func TestNothing(t *testing.T) {
	for _, text := range []string{"", "\n", " \n\t\r\n\n", strings.Repeat("\x00", 5000)} {
		log, err := Read(strings.NewReader(text))
		if err != nil || !log.Blank || log.Kernel {
			t.Errorf("%q: %+v, %v", text, log, err)
		}
	}
	log, err := Read(strings.NewReader("\n[    1.0] x\n"))
	if err != nil || log.Blank || !log.Kernel || log.Lines != 2 {
		t.Errorf("%+v, %v", log, err)
	}
}

// broken fails after its text.
type broken struct{ text io.Reader }

func (b broken) Read(p []byte) (int, error) {
	n, err := b.text.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrClosedPipe
	}
	return n, err
}

// TestReadErrors: an error of reading is returned, with what came before it.
func TestReadErrors(t *testing.T) {
	log, err := Read(broken{strings.NewReader(fault + "\n")})
	if !errors.Is(err, io.ErrClosedPipe) || len(log.Found) != 1 {
		t.Errorf("%+v, %v", log, err)
	}
}

// TestLongTexts: a fault counts behind and within texts of any length, or is listed.
func TestLongTexts(t *testing.T) {
	pad := strings.Repeat("x", 200_000)
	lines := strings.Repeat("[171160.000000] eth0: link up\\n", 20_000)
	for name, tc := range map[string]struct{ log, want string }{
		"behind a long line": {pad + "\n" + fault + "\n", "1 counted"},
		"within a long line": {pad + " " + fault + "\n", "1 unread"},
		"in a long text": {
			`{"stdout":"` + lines + "[171167.620236] " + fault + `\n` + lines + `"}`, "1 counted, at 171167.620236",
		},
		"behind a long text":     {`{"a":"` + pad + `","MESSAGE":"` + fault + `"}`, "1 counted"},
		"in JSON of great depth": {strings.Repeat(`{"a":`, 100) + `"` + fault + `"`, "1 unread"},
	} {
		if got := says(t, tc.log); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// TestLimits: however many machines, errors and lines a log has, the result is bounded, and nothing is dropped in
// silence.
func TestLimits(t *testing.T) {
	var text strings.Builder
	for i := range 3 * maxHosts {
		n := itoa(i)
		text.WriteString("gpu-" + n + ": NVRM: Xid (PCI:0000:3b:00): 79, a\n")
		text.WriteString("gpu-" + n + ": NVRM: Xid (PCI:0000:3b:00): 31, pid=" + n + ", name=x, b\n")
		text.WriteString("gpu-1: NVRM: Xid (PCI:0000:3b:00): 13, pid=" + n + ", name=x, b\n")
		text.WriteString("tenant[7]: " + fault + "\nwe saw " + fault + "\n")
	}
	log, err := Read(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	total := log.Unkept
	for _, f := range log.Found {
		total += f.Count
	}
	if len(log.Found) > maxFound || total != 9*maxHosts {
		t.Errorf("%d kept, %d reports in all", len(log.Found), total)
	}
	for _, s := range []Seen{log.Unread, log.Foreign} {
		if s.Count != 3*maxHosts || len(s.Lines) != maxSeen {
			t.Errorf("%d seen, %d listed", s.Count, len(s.Lines))
		}
	}
}

// TestShown: listed text is one line without control characters, and bounded.
func TestShown(t *testing.T) {
	got := shown("a\x1b[31m\x00\tb\u202e\u009b\n" + strings.Repeat("ä", 1000))
	if strings.ContainsAny(got, "\x1b\x00\t\n\u202e\u009b") || len(got) > maxShown+3 ||
		!strings.HasPrefix(got, "a[31m b") {
		t.Errorf("%q", got)
	}
}
