package probe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Answers reads everything that a Serve wrote which finished what it was asked (Config.Finish): the hello, and the
// facts by the ids of their requests. Other lines are skipped.
func Answers(out []byte) (Hello, map[string]diag.Fact, error) {
	var hello *Hello
	facts := map[string]diag.Fact{}
	left := budget{left: bounded.LinkBudget}
	for r := bufio.NewReader(bytes.NewReader(out)); ; {
		line, err := readLine(r)
		if errors.Is(err, errLineTooLong) {
			continue
		}
		if err != nil { // the end: it reads memory
			break
		}
		var o outLine
		holds, over := bounded.Measure(line, bounded.Line())
		switch {
		case over != nil || bounded.Unmarshal(line, &o, bounded.Line()) != nil:
			continue
		case o.Hello != nil && hello == nil:
			hello = o.Hello
			continue
		case hello == nil:
			continue
		}
		left.left -= len(line) + bounded.ElementCost*holds.Elements
		if left.left < 0 {
			return *hello, facts, errOverBudget
		}
		if f, ok := factOf(line, &o, nil); ok {
			facts[f.ID] = f
		}
	}
	if hello == nil {
		return Hello{}, nil, errors.New("the program does not speak the probe's protocol")
	}
	return *hello, facts, nil
}

// Requests returns requests as Serve reads them.
func Requests(reqs ...diag.Request) (string, error) {
	var lines bytes.Buffer
	for i := range reqs {
		line, err := json.Marshal(&reqs[i])
		if err != nil {
			return "", fmt.Errorf("write a request: %w", err)
		}
		lines.Write(append(line, '\n'))
	}
	return lines.String(), nil
}
