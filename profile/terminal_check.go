package profile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// terminalKinds are the values of terminal.kind.
var terminalKinds = []string{string(diag.TerminalNone), string(diag.TerminalWS), string(diag.TerminalExec)}

// terminalProblems reports invalid settings of the terminal.
func terminalProblems(p *Profile, add func(key string, err error)) {
	t := &p.Terminal
	add("terminal.kind", oneOf("terminal.kind", string(t.Kind), terminalKinds))
	add("terminal.like", oneOf("terminal.like", t.Like, TerminalDialects()))
	add("terminal.token", oneOf("terminal.token", t.Token, tokenSources))
	add("terminal.token_in", oneOf("terminal.token_in", t.TokenIn, tokenPlaces))
	add("terminal.ready", oneOf("terminal.ready", t.Ready, []string{"frame", "none"}))
	add("terminal.input_as", oneOf("terminal.input_as", t.InputAs, []string{"binary", "text"}))
	for key, why := range t.misplaced() {
		add("terminal."+key, errors.New(why))
	}
	if t.Path != "" {
		add("terminal.path", checkPath(PathTerminalWS, t.Path))
		if mapped, both := p.Mapping.Paths[PathTerminalWS]; both && mapped != t.Path {
			add("terminal.path", errors.New("give terminal.path or mapping.paths.terminal_ws, not both"))
		}
	}
	if strings.ContainsAny(t.TokenName, " \t\r\n;,=") {
		add("terminal.token_name", fmt.Errorf("cannot be the name of a token's place: %q", t.TokenName))
	}
	if t.Input != "" && !strings.Contains(t.Input, "{data}") && !strings.Contains(t.Input, "{json}") &&
		!strings.Contains(t.Input, "{base64}") {
		add("terminal.input", errors.New("has none of {data}, {json} and {base64}, so nothing can be typed"))
	}
	for i, f := range t.Frames {
		add(fmt.Sprintf("terminal.frames[%d]", i), checkFrame(f))
	}
	for code, meaning := range t.Closes {
		add(fmt.Sprintf("terminal.closes.%d", code), checkClose(code, meaning))
	}
	checkExec(t, add)
}

// oneOf accepts one of the words, and an unset value.
func oneOf(key, v string, words []string) error {
	if v == "" || slices.Contains(words, v) {
		return nil
	}
	return fmt.Errorf("%s cannot be %q%s: want %s", key, v, strictyaml.Nearest(v, words), strings.Join(words, ", "))
}

// misplaced has the keys that the kind of the terminal does not have, with the kind that does.
func (t *Terminal) misplaced() map[string]string {
	kind, out := t.Kind, map[string]string{}
	if kind == "" {
		kind = diag.TerminalWS
	}
	for _, of := range [...]struct {
		key   string
		set   bool
		kinds []diag.TerminalKind
	}{
		{"like", t.Like != "", []diag.TerminalKind{diag.TerminalWS}},
		{"path", t.Path != "", []diag.TerminalKind{diag.TerminalWS}},
		{"token", t.Token != "", []diag.TerminalKind{diag.TerminalWS, diag.TerminalExec}},
		{"subprotocols", t.Subprotocols != nil, []diag.TerminalKind{diag.TerminalWS}},
		{"frames", t.Frames != nil, []diag.TerminalKind{diag.TerminalWS}},
		{"hello", t.Hello != nil, []diag.TerminalKind{diag.TerminalWS}},
		{"input", t.Input != "", []diag.TerminalKind{diag.TerminalWS}},
		{"closes", t.Closes != nil, []diag.TerminalKind{diag.TerminalWS, diag.TerminalExec}},
		{"namespace", t.Namespace != "", []diag.TerminalKind{diag.TerminalExec}},
		{"pod", t.Pod != "", []diag.TerminalKind{diag.TerminalExec}},
		{"container", t.Container != "", []diag.TerminalKind{diag.TerminalExec}},
		{"command", t.Command != nil, []diag.TerminalKind{diag.TerminalExec}},
	} {
		if of.set && !slices.Contains(of.kinds, kind) {
			out[of.key] = fmt.Sprintf("terminal.%s is of the kind %s, and terminal.kind is %s", of.key, of.kinds[0], kind)
		}
	}
	return out
}

// checkFrame accepts a row that can match something.
func checkFrame(f diag.TerminalFrame) error {
	for _, err := range []error{
		oneOf("is", f.Is, []string{"data", "ready", "error", "exit"}), oneOf("opcode", f.Opcode, []string{"text", "binary"}),
		oneOf("encoding", f.Encoding, []string{"text", "base64"}),
	} {
		if err != nil {
			return err
		}
	}
	switch {
	case f.Is == "":
		return errors.New("a frame needs is: data, ready, error or exit")
	case f.Equals != "" && f.Field == "":
		return errors.New("equals needs the field that it is compared with")
	case f.Encoding != "" && f.Is != "data":
		return errors.New("encoding is of a frame that is data")
	}
	return nil
}

// checkClose accepts a code that a server can send, with a meaning of the list.
func checkClose(code int, meaning string) error {
	if code < 1000 || code > 4999 {
		return fmt.Errorf("a close code is between 1000 and 4999, not %d", code)
	}
	var known []string
	for _, m := range diag.CloseMeanings {
		known = append(known, m.ID)
	}
	if meaning == "" {
		return fmt.Errorf("a close code needs one of %s", strings.Join(known, ", "))
	}
	return oneOf("a close", meaning, known)
}

// templateVars are the placeholders of a pod's templates.
var templateVars = []string{"node_id", "allocation_id", "os_user"}

// placeholdersOf returns the names in braces of a template.
func placeholdersOf(template string) (names []string) {
	for {
		_, rest, found := strings.Cut(template, "{")
		name, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			return names
		}
		names, template = append(names, name), after
	}
}

// checkTemplate accepts a template with placeholders of vars, whose other text check accepts.
func checkTemplate(v string, vars []string, check func(string) error) error {
	if v == "" {
		return nil
	}
	filled := map[string]string{}
	for _, name := range placeholdersOf(v) {
		if !slices.Contains(vars, name) {
			return fmt.Errorf("%q cannot use {%s}; it has %s", v, name, placeholders(vars))
		}
		filled[name] = "x"
	}
	return check(Fill(v, filled))
}

// checkExec reports invalid settings of exec in a pod.
func checkExec(t *Terminal, add func(key string, err error)) {
	if t.Kind != diag.TerminalExec {
		return
	}
	if t.Namespace == "" || t.Pod == "" {
		add("terminal.kind", errors.New("a kubernetes-exec terminal needs terminal.namespace and terminal.pod"))
	}
	for key, v := range map[string]string{"namespace": t.Namespace, "pod": t.Pod, "container": t.Container} {
		add("terminal."+key, checkTemplate(v, templateVars, checkKubernetesName))
	}
	if t.Command != nil {
		add("terminal.command", checkCommand(t.Command))
	}
}

// checkKubernetesName accepts the name of an object.
func checkKubernetesName(v string) error {
	if len(v) > 253 || strings.Trim(v, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
		return fmt.Errorf("not a name of Kubernetes: %q", v)
	}
	return nil
}
