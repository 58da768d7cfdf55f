package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gpuaas/gpuaasctl/internal/bounded"

	"go.yaml.in/yaml/v3"
)

// FileError is one mistake in a file, with the line that holds it (0: no single line does).
type FileError struct {
	Path    string
	Line    int
	Message string
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return e.Path + ": " + e.Message
	}
	return e.Path + ":" + strconv.Itoa(e.Line) + ": " + e.Message
}

// ReadFile reads one profile file strictly. The second value gives the line of every value by dotted key. The error
// joins one *FileError per mistake, in the order of the lines.
func ReadFile(path string) (Profile, map[string]int, error) {
	f, err := openOwn(context.Background(), path)
	if err != nil {
		return Profile{}, nil, fmt.Errorf("read profile: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := f.read(bounded.YAML)
	if err != nil {
		return Profile{}, nil, fmt.Errorf("read profile: %w", err)
	}
	p, lines, err := parse(path, data)
	if err != nil {
		return Profile{}, nil, err
	}
	if p.Auth.TokenCommand != nil || p.Auth.EdgeCookieCommand != nil {
		if err := mayCommand(f.File); err != nil { // a line is not known where the command came by a merge key
			return Profile{}, nil, &FileError{path, max(lines["auth.token_command"], lines["auth.edge_cookie_command"]), err.Error()}
		}
	}
	p.Name = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".yaml"), ".yml")
	settlePaths(&p, filepath.Dir(path))
	return p, lines, nil
}

// mayCommand refuses a profile whose text somebody else may have written: its commands are run by who runs this. It looks
// at what was opened, so that nobody can swap it; a pipe has an owner, too.
func mayCommand(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("a command is run only from a profile whose owner is known")
	}
	return mayCommandAs(os.Geteuid(), int(sys.Uid), st.Mode().Perm(), f.Name())
}

// Foreign says in half a sentence who besides root and user uid can have written what has that owner and mode; "" nobody can.
func Foreign(uid, owner int, mode os.FileMode) string {
	switch {
	case owner != 0 && owner != uid:
		return fmt.Sprintf("belongs to user %d", owner)
	case mode&othersWrite != 0:
		return fmt.Sprintf("can be written by others (mode %04o)", mode)
	}
	return ""
}

// mayCommandAs is mayCommand for user uid, of a file at path with that owner and mode.
func mayCommandAs(uid, owner int, mode os.FileMode, path string) error {
	switch {
	case Foreign(uid, owner, mode) == "":
		return nil
	case owner != 0 && owner != uid:
		return fmt.Errorf("a command is run only from a profile that belongs to root or to who runs it, and this one is user %d's", owner)
	}
	return errors.New("a command is run only from a profile that nobody else can write; run: chmod go-w " + path)
}

// parse decodes and checks data; path is only for messages.
func parse(path string, data []byte) (Profile, map[string]int, error) {
	var p Profile
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return p, nil, decodeErrors(path, err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&p); err != nil && !errors.Is(err, io.EOF) {
		return p, nil, decodeErrors(path, err)
	}
	if err := dec.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return p, nil, &FileError{path, 0, "holds more than one YAML document"}
	}
	lines := map[string]int{}
	index(&root, "", lines)
	var found []*FileError
	for _, pr := range problems(&p) {
		found = append(found, &FileError{path, lines[pr.key], pr.err.Error()})
	}
	return p, lines, joinErrors(found)
}

// index notes the line of every value by dotted key; a list's have their number: "chaos.windows[1]".
func index(n *yaml.Node, key string, lines map[string]int) {
	switch n.Kind {
	case yaml.DocumentNode:
		for _, c := range n.Content {
			index(c, key, lines)
		}
	case yaml.AliasNode:
		index(n.Alias, key, lines)
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i].Value
			if key != "" {
				k = key + "." + k
			}
			lines[k] = n.Content[i].Line
			index(n.Content[i+1], k, lines)
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			k := fmt.Sprintf("%s[%d]", key, i)
			lines[k] = c.Line
			index(c, k, lines)
		}
	}
}

// decodeErrors turns the decoder's words into ours, one error per mistake.
func decodeErrors(path string, err error) error {
	var te *yaml.TypeError
	if !errors.As(err, &te) {
		return lineError(path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var found []*FileError
	for _, m := range te.Errors {
		found = append(found, lineError(path, m))
	}
	return joinErrors(found)
}

// lineError splits "line 3: message" and rewrites the message.
func lineError(path, m string) *FileError {
	line := 0
	if rest, ok := strings.CutPrefix(m, "line "); ok {
		if num, msg, ok := strings.Cut(rest, ": "); ok {
			line, _ = strconv.Atoi(num)
			m = msg
		}
	}
	return &FileError{path, line, plainWords(m)}
}

// plainWords rewrites the YAML library's messages about fields and types for someone who edits a profile.
func plainWords(m string) string {
	if rest, ok := strings.CutPrefix(m, "field "); ok {
		if name, place, ok := strings.Cut(rest, " not found in type "); ok {
			return fmt.Sprintf("unknown field %q%s", name, nearest(name, fieldsOf(reflect.TypeFor[Profile](), place)))
		}
	}
	if rest, ok := strings.CutPrefix(m, "cannot unmarshal "); ok {
		if got, typ, ok := strings.Cut(rest, " into "); ok {
			_, value, quoted := strings.Cut(got, " `")
			if !quoted {
				return fmt.Sprintf("want %s here, not %s", typeWords(typ), got)
			}
			return fmt.Sprintf("want %s, not %q", typeWords(typ), strings.TrimSuffix(value, "`"))
		}
	}
	return m
}

func typeWords(typ string) string {
	switch typ {
	case "time.Duration":
		return "a duration with its unit (5s, 500ms)"
	case "int", "int64":
		return "a whole number"
	case "bool":
		return "true or false"
	case "string":
		return "text"
	}
	if strings.HasPrefix(typ, "[]") {
		return "a list"
	}
	return "a mapping"
}

// fieldsOf are the names of the fields that the mapping of Go type place has in a file, looked for in t and below it.
func fieldsOf(t reflect.Type, place string) []string {
	for t.Kind() == reflect.Map || t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if t.String() != place {
			if found := fieldsOf(f.Type, place); found != nil {
				return found
			}
		} else if name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

func joinErrors(found []*FileError) error {
	slices.SortFunc(found, func(a, b *FileError) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return strings.Compare(a.Message, b.Message)
	})
	errs := make([]error, len(found))
	for i, e := range found {
		errs[i] = e
	}
	return errors.Join(errs...)
}

// settlePaths makes a file's relative paths relative to its folder, and ~/ the user's home: a profile must mean the
// same from everywhere.
func settlePaths(p *Profile, dir string) {
	paths := []*string{
		&p.SSH.Identity, &p.SSH.KnownHosts, &p.PlatformSSH.Identity, &p.PlatformSSH.KnownHosts,
		&p.Auth.TokenFile, &p.Auth.EdgeCookieFile, &p.Trust.OperatorCA, &p.Trust.NodeCA,
		&p.Chaos.CACert, &p.Chaos.CAKey,
	}
	for _, argv := range [][]string{p.Auth.TokenCommand, p.Auth.EdgeCookieCommand} {
		if len(argv) == 0 || !strings.ContainsRune(argv[0], '/') { // it is looked for in PATH
			continue
		}
		if dir == "." && !filepath.IsAbs(argv[0]) && !strings.HasPrefix(argv[0], "~/") { // joined, it would be a bare name
			continue
		}
		paths = append(paths, &argv[0])
	}
	for _, v := range paths {
		switch {
		case *v == "" || filepath.IsAbs(*v):
		case strings.HasPrefix(*v, "~/"):
			if home, err := os.UserHomeDir(); err == nil {
				*v = filepath.Join(home, (*v)[2:])
			}
		default:
			*v = filepath.Join(dir, *v)
		}
	}
}
