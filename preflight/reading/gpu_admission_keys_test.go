package reading

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestAdmissionKeys: a gate's document has only keys that were named for it.
func TestAdmissionKeys(t *testing.T) {
	text, err := json.Marshal(GPUAdmission{Listed: 2})
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := json.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	for key := range keys {
		if key != strings.ToLower(key) {
			t.Errorf("the document has the key %s, a name of the program's own", key)
		}
	}
}
