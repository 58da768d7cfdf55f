package diag

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// holder has a Secret in every place where fmt and the encoders look for one; a private field is the place where fmt
// calls no method.
type holder struct {
	private Secret
	Public  Secret
	Pointer *Secret
	List    []Secret
	Map     map[string]Secret
}

func TestSecretIsNeverPrinted(t *testing.T) {
	const value = "canary-4711"
	hex := fmt.Sprintf("%x", value)
	s := NewSecret(value)
	h := holder{s, s, &s, []Secret{s}, map[string]Secret{"k": s}}
	var out bytes.Buffer
	for _, v := range []any{s, &s, h, &h, []any{h}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
		for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(handler).Info("m", "v", v, slog.Group("g", "v", v))
		}
		fmt.Fprintln(&out, fmt.Errorf("using %v: %w", v, fmt.Errorf("%+v", v)))
	}
	if text := out.String(); strings.Contains(text, value) || strings.Contains(strings.ToLower(text), hex) {
		t.Errorf("the value was printed:\n%s", text)
	}
	if s.Reveal() != value {
		t.Errorf("Reveal gives %q", s.Reveal())
	}
}

func TestSecretThroughJSON(t *testing.T) {
	type box struct {
		Token Secret `json:"token,omitzero"`
	}
	for in, want := range map[string]string{"": `{}`, "canary": `{"token":"[redacted]"}`} {
		b, err := json.Marshal(box{NewSecret(in)})
		if err != nil || string(b) != want {
			t.Errorf("%q marshals as %s, %v", in, b, err)
		}
		var back box
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(back)
		if err != nil || !bytes.Equal(again, b) || strings.Contains(back.Token.Reveal(), "canary") {
			t.Errorf("%q reads back as %s, %q, %v", in, again, back.Token.Reveal(), err)
		}
	}
	if !NewSecret("").IsZero() {
		t.Error("an empty secret is one")
	}
}
