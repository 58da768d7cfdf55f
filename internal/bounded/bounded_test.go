package bounded_test

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/tools/testkit/heaptest"
)

// counted is an independent Measure: it counts the decoded document.
func counted(v any) (n bounded.Count) {
	in := func(v any) {
		c := counted(v)
		n.Elements, n.Values, n.Depth = n.Elements+c.Elements, n.Values+c.Values+1, max(n.Depth, c.Depth)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			in(x)
		}
	case []any:
		for _, x := range v {
			in(x)
		}
		n.Elements += len(v)
	default:
		return n
	}
	n.Depth++
	return n
}

func boundless() bounded.Limits {
	return bounded.Limits{Bytes: 1 << 30, Elements: 1 << 30, Values: 1 << 30, Depth: 200}
}

func agrees(t *testing.T, text []byte) {
	t.Helper()
	var v any
	if json.Unmarshal(text, &v) != nil {
		return
	}
	want := counted(v)
	got, err := bounded.Measure(text, boundless())
	if want.Depth > 200 {
		if !errors.Is(err, bounded.ErrLimit) {
			t.Errorf("depth %d passed", want.Depth)
		}
		return
	}
	if got.Values < want.Values || got.Elements < want.Elements || got.Depth != want.Depth {
		t.Errorf("%.200s: counted %+v (%v), want %+v", text, got, err, want)
	}
	if !strings.Contains(string(text), `"`) && got != want { // a duplicate key is one member
		t.Errorf("%.200s: counted %+v, want %+v", text, got, want)
	}
}

// FuzzMeasure: everything that a decoder creates is counted, and no input makes Measure fail.
func FuzzMeasure(f *testing.F) {
	for _, text := range []string{
		`[]`, `{}`, `[{}]`, `[[],[1,"a,b]",{"x":[null , true]}]]`, `{"a":"\\","b":["\"",{"c":{}}]}`, ` [ 1 , 2 ] `, `"a`,
		`]]]`, `[`, `[,,,]`, `"\u005d"`, `{"a":1,"a":2}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { agrees(t, text) })
}

// TestMeasureCounts: random documents are counted exactly, wherever the blanks are.
func TestMeasureCounts(t *testing.T) {
	roll := rand.New(rand.NewPCG(3, 9))
	var value func(depth int) any
	value = func(depth int) any {
		switch k := roll.IntN(5); {
		case depth > 6 || k == 0:
			return `a "quoted] \ te,xt{`
		case k == 1:
			return roll.IntN(1000)
		case k == 2:
			m := map[string]any{}
			for i := range roll.IntN(5) {
				m[strings.Repeat(`,"`, i)] = value(depth + 1)
			}
			return m
		}
		list := []any{}
		for range roll.IntN(6) {
			list = append(list, value(depth+1))
		}
		return list
	}
	for range 300 {
		v := value(0)
		text, err := json.MarshalIndent(v, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		var back any
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if got, err := bounded.Measure(text, boundless()); err != nil || got != counted(back) {
			t.Fatalf("%s: counted %+v (%v), want %+v", text, got, err, counted(back))
		}
	}
}

// TestLimitsAreNamed: a document over a limit is refused with the limit's name and the line; one at the limit passes.
func TestLimitsAreNamed(t *testing.T) {
	l := bounded.Limits{Bytes: 60, Elements: 3, Values: 5, Depth: 2}
	for text, want := range map[string]string{
		`[1,2,3]`: "", "[1,\n2,\n3,\n4]": "line 3: more than 3 list elements", `{"a":1,"b":2,"c":3,"d":4,"e":5}`: "",
		`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}`: "line 1: more than 5 values", `[[1]]`: "",
		`[[[]]]`: "line 1: more than 2 levels of nesting", `"` + strings.Repeat("x", 60) + `"`: "more than 60 bytes",
		`["[[[[,,,,,,,,,,"]`: "", `{"\"":"\\","b":[1]}`: "",
	} {
		switch err := bounded.Check([]byte(text), l); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (!errors.Is(err, bounded.ErrLimit) || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := bounded.Read(strings.NewReader("12345"), 4); !errors.Is(err, bounded.ErrLimit) {
		t.Errorf("five bytes of four: %v", err)
	}
	if text, err := bounded.Read(strings.NewReader("1234"), 4); err != nil || string(text) != "1234" {
		t.Errorf("four bytes of four: %q %v", text, err)
	}
	var into any
	if err := bounded.Strict([]byte(`{} {}`), &into, l); !errors.Is(err, bounded.ErrMore) {
		t.Errorf("two documents: %v", err)
	}
	if err := bounded.Strict([]byte(`{"a"`), &into, l); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a document: %v", err)
	}
}

// TestLinesAreOneDocument: a log of many small lines is limited like one of a few large ones.
func TestLinesAreOneDocument(t *testing.T) {
	s := bounded.NewLines(bounded.Limits{Bytes: 100, Elements: 4, Values: 100, Depth: 4})
	var v any
	for n := range 4 {
		if err := s.Unmarshal([]byte(`{}`), &v); err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
	}
	if err := s.Unmarshal([]byte(`{"a":[1]}`), &v); !errors.Is(err, bounded.ErrLimit) ||
		!strings.Contains(err.Error(), "more than 4 list elements") {
		t.Errorf("a fifth element: %v", err)
	}
}

// TestRealDocumentsPassTenTimes: ten times the largest recording is within the limits of its kind.
func TestRealDocumentsPassTenTimes(t *testing.T) {
	root := filepath.Join("..", "..")
	of := map[string]bounded.Limits{
		"golden/reports/*.json": bounded.Document(), "golden/matrix/*.json": bounded.Document(),
		"chaos/render/testdata/*.json": bounded.Document(), "golden/drills/*.ndjson": bounded.Log(),
	}
	for pattern, l := range of {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: no recordings (%v)", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tenth := bounded.Limits{Bytes: l.Bytes / 10, Elements: l.Elements / 10, Values: l.Values / 10,
				Depth: l.Depth * 2 / 3}
			if err := bounded.Check(text, tenth); err != nil {
				t.Errorf("ten times %s: %v", file, err)
			}
			checkFacts(t, file, text)
		}
	}
}

// checkFacts checks a node's answers in a report against the limits of a line.
func checkFacts(t *testing.T, file string, text []byte) {
	t.Helper()
	var r struct{ Facts []json.RawMessage }
	if json.Unmarshal(text, &r) != nil {
		return
	}
	l := bounded.Line()
	for _, f := range r.Facts {
		if err := bounded.Check(f,
			bounded.Limits{Bytes: l.Bytes / 10, Elements: l.Elements / 10, Values: l.Values / 10, Depth: l.Depth}); err != nil {
			t.Errorf("ten times a fact of %s: %v", file, err)
		}
	}
}

// TestDecodeUnderACeiling: each document either needs little memory, or is refused before it is decoded. The ceiling is
// above the cost of the largest document within the limits.
func TestDecodeUnderACeiling(t *testing.T) {
	const ceiling = 96 << 20
	list := func(head, element, tail string, n int) []byte {
		return []byte(head + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + tail)
	}
	most := bounded.Document().Elements
	for name, tc := range map[string]struct {
		text []byte
		over bool
	}{
		"1.5 MB of facts":   {list(`{"facts":[`, "{}", "]}", 500_000), true},
		"6 MB of facts":     {list(`{"facts":[`, "{}", "]}", 2_000_000), true},
		"facts that are no": {list(`{"facts":[`, "0", "]}", 1_000_000), true},
		"null facts":        {list(`{"facts":[`, "null", "]}", 1_000_000), true},
		"facts twice": {
			[]byte(`{"facts":[` + strings.Repeat("{},", most/2) + `{}],"facts":[` + strings.Repeat("{},", most) + `{}]}`), true,
		},
		"the most facts":               {list(`{"facts":[`, "{}", "]}", most), false},
		"the most facts with sections": {list(`{"facts":[`, `{"tls":{},"http":{},"tcp":{}}`, "]}", most), false},
		"the most members": {list(`{"subject":{"expected":{`, `"a":""`, "}}}", bounded.Document().Values-2),
			false},
		"deep": {[]byte(strings.Repeat("[", 1<<20)), true},
	} {
		t.Run(name, func(t *testing.T) {
			heaptest.Under(t, ceiling, func() {
				err := bounded.Unmarshal(tc.text, &diag.Report{}, bounded.Document())
				if errors.Is(err, bounded.ErrLimit) != tc.over {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// BenchmarkDecode compares decoding a recorded report with and without counting.
func BenchmarkDecode(b *testing.B) {
	text, err := os.ReadFile(filepath.Join("..", "..", "golden", "reports", "healthy.json"))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			_ = json.Unmarshal(text, &diag.Report{})
		}
	})
	b.Run("bounded", func(b *testing.B) {
		for b.Loop() {
			_ = bounded.Unmarshal(text, &diag.Report{}, bounded.Document())
		}
	})
	b.Run("count alone", func(b *testing.B) {
		for b.Loop() {
			_ = bounded.Check(text, bounded.Document())
		}
	})
}
