package diag

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// holder has a Secret wherever fmt and the encoders look for one, including a private field, where fmt calls no method.
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

func TestBareURL(t *testing.T) {
	for in, want := range map[string]struct{ bare, query string }{
		"https://a.test/lab?ticket=x":     {"https://a.test/lab", "ticket=x"},
		"wss://t/?token=x#frag":           {"wss://t/", "token=x"},
		"https://a.test/lab#token=x":      {"https://a.test/lab", ""},
		"https://me:pass@a.test:8/%7Ea/b": {"https://a.test:8/%7Ea/b", ""},
		"https://me@a.test/?a=1&b=2#c":    {"https://a.test/", "a=1&b=2"},
		"//me:pass@a.test/lab":            {"//a.test/lab", ""},
		"/lab?x=1":                        {"/lab", "x=1"},
		"https://me:pa/ss@a.test/lab":     {Redacted, ""},
		"https://me:pa?ss@a.test/lab":     {Redacted, ""},
		"https://me:pa#ss@a.test/lab":     {Redacted, ""},
	} {
		if bare, query, cut := BareURL(in); !cut || bare != want.bare || query.Reveal() != want.query {
			t.Errorf("%q becomes %q and %q, %v", in, bare, query.Reveal(), cut)
		}
	}
	for _, in := range []string{"https://a.test/lab", "https://a.test/@me/lab", "what?", "me@a.test", "#7",
		`{"u":"https://a.test/?x=1"}`, "", "see https://a.test/?x=1"} {
		if bare, query, cut := BareURL(in); cut || bare != in || !query.IsZero() {
			t.Errorf("%q becomes %q and %q", in, bare, query.Reveal())
		}
	}
}
