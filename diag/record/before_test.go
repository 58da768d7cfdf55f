package record

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestRecordOfVersionBefore: every slot of a record that the previous version's agent wrote can be read, and encodes to
// the same bytes. testdata/before has the slots without their padding.
func TestRecordOfVersionBefore(t *testing.T) {
	text, err := os.ReadFile("testdata/before/slots.txt")
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		_, at, _ := strings.Cut(line, " slot=")
		at, _, _ = strings.Cut(at, " ")
		file, number, _ := strings.Cut(at, "/")
		slot, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		b := append([]byte(line), bytes.Repeat([]byte(" "), Size-len(line))...)
		b[Size-1] = '\n'
		e, verdict := Decode(file, slot, b)
		if verdict != Valid {
			t.Errorf("%s: %s", line, verdict)
			continue
		}
		reasons[string(e.Reason)] = true
		if again := Encode(file, slot, e); !bytes.Equal(again[:], b) {
			t.Errorf("%s\nis written as\n%s", line, again[:])
		}
	}
	if len(reasons) < 3 {
		t.Errorf("only %v", reasons)
	}
}
