package probe

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestRequestsOfVersionBefore: this agent reads all requests that the previous version of the tool sends to a node,
// with every input.
func TestRequestsOfVersionBefore(t *testing.T) {
	walks, err := filepath.Glob("../../golden/before/*.json")
	if err != nil || len(walks) == 0 {
		t.Fatalf("no walks: %v", err)
	}
	known, asked := map[diag.Op]bool{}, 0
	for _, op := range diag.Ops() {
		known[op] = true
	}
	for _, path := range walks {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var walk struct {
			Facts []struct {
				Vantage string          `json:"vantage"`
				Request json.RawMessage `json:"request"`
			} `json:"facts"`
		}
		if err := json.Unmarshal(text, &walk); err != nil {
			t.Fatal(err)
		}
		for _, f := range walk.Facts {
			if f.Vantage != VantageNode {
				continue
			}
			asked++
			in, err := decodeRequest(f.Request)
			if err != nil || !known[in.Op] {
				t.Errorf("%s: %v", f.Request, err)
				continue
			}
			again, err := json.Marshal(in)
			var was, is any
			if err != nil || json.Unmarshal(f.Request, &was) != nil || json.Unmarshal(again, &is) != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(was, is) {
				t.Errorf("%s is read as %s", f.Request, again)
			}
		}
	}
	if in, err := decodeRequest([]byte(`{"cancel":"7"}`)); err != nil || in.Cancel != "7" {
		t.Errorf("a question that nobody waits for any more is read as %+v: %v", in, err)
	}
	t.Logf("%d requests", asked)
}
