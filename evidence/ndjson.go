package evidence

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/clean"
)

// maxEventLine bounds one line of a history.
const maxEventLine = 1 << 20

// NDJSON encodes events, one JSON object per line.
func NDJSON(events []Event) ([]byte, error) {
	var b bytes.Buffer
	for i := range events {
		line, err := json.Marshal(&events[i])
		if err != nil {
			return nil, fmt.Errorf("write an event: %w", err)
		}
		b.Write(clean.JSON(line))
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// ReadNDJSON parses the output of NDJSON.
func ReadNDJSON(data []byte) ([]Event, error) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxEventLine)
	var events []Event
	all := bounded.NewLines(bounded.History())
	for n := 1; lines.Scan(); n++ {
		var e Event
		if err := all.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		events = append(events, e)
	}
	return events, lines.Err()
}
