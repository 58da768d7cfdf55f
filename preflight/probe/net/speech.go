package net

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/ws"
)

// speech is how a terminal's messages are read and written: as the request says, else as on the reference platform.
type speech struct {
	as  *diag.Terminal
	get Lookup
}

// read returns what a message means; a frame without a kind is to be dropped.
func (s speech) read(kind ws.Kind, b []byte) frame {
	if s.as == nil {
		return readReference(kind, b)
	}
	for i := range s.as.Frames {
		if fr, ok := s.match(&s.as.Frames[i], kind, b); ok {
			return fr
		}
	}
	return frame{}
}

// match reads a message by one row; false if the row is not about it.
func (s speech) match(row *diag.TerminalFrame, kind ws.Kind, b []byte) (frame, bool) {
	rest, ok := bytes.CutPrefix(b, []byte(row.Prefix))
	switch {
	case !ok,
		row.Opcode == "text" && kind != ws.Text, row.Opcode == "binary" && kind != ws.Binary,
		!bytes.Contains(rest, []byte(row.Contains)):
		return frame{}, false
	}
	if row.Field != "" {
		if v, found := s.field(rest, row.Field); !found || (row.Equals != "" && v != row.Equals) {
			return frame{}, false
		}
	}
	fr := frame{kind: row.Is, data: rest}
	if row.Data != "" {
		text, found := s.field(rest, row.Data)
		if !found {
			return frame{}, false
		}
		fr.data = []byte(text)
	}
	if row.Encoding == "base64" {
		plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(fr.data)))
		if err != nil {
			return frame{}, false
		}
		fr.data = plain
	}
	fr.code, _ = s.field(rest, row.Code)
	fr.message, _ = s.field(rest, row.Message)
	if code, found := s.field(rest, row.ExitCode); found {
		if n, err := strconv.Atoi(code); err == nil && n >= -maxExitCode && n <= maxExitCode {
			fr.exit = &n
		}
	}
	return fr, true
}

// field looks a path up in a message that is JSON.
func (s speech) field(doc []byte, path string) (string, bool) {
	if path == "" || !json.Valid(doc) {
		return "", false
	}
	get := s.get
	if get == nil {
		get = lookup
	}
	return get(doc, path)
}

// readReference reads a message of the reference platform.
func readReference(kind ws.Kind, b []byte) frame {
	fr := frame{kind: frameData, data: b}
	if kind != ws.Text {
		return fr
	}
	var text struct {
		Type, Code, Message string
		ExitCode            *int `json:"exit_code"`
	}
	if bounded.Unmarshal(b, &text, bounded.Small()) == nil && text.Type != "" {
		if c := text.ExitCode; c != nil && (*c < -maxExitCode || *c > maxExitCode) {
			text.ExitCode = nil // no shell has it, and the report could not be read again
		}
		fr = frame{kind: text.Type, code: text.Code, message: text.Message, exit: text.ExitCode}
	}
	return fr
}

// write returns the message that types a text to the shell.
func (s speech) write(text string) (ws.Kind, []byte) {
	if s.as == nil || s.as.Input == "" {
		return ws.Binary, []byte(text)
	}
	quoted, _ := json.Marshal(text) // a string always has a form
	kind := ws.Binary
	if s.as.InputText {
		kind = ws.Text
	}
	return kind, []byte(strings.NewReplacer("{data}", text, "{json}", string(quoted),
		"{base64}", base64.StdEncoding.EncodeToString([]byte(text))).Replace(s.as.Input))
}

// hello returns the client's first messages, with the token where they ask for it.
func (c *exchange) hello() []string {
	if c.req.Terminal == nil {
		return nil
	}
	token := ""
	if !c.req.Token.IsZero() && c.mayReveal() {
		token = c.req.Token.Reveal()
	}
	var said []string
	for _, template := range c.req.Terminal.Hello {
		as := token
		if json.Valid([]byte(template)) { // the placeholder is inside of a JSON string
			quoted, _ := json.Marshal(token)
			as = strings.Trim(string(quoted), `"`)
		}
		said = append(said, strings.ReplaceAll(template, "{token}", as))
	}
	return said
}

// The places of a token beside the reference platform's, which is a subprotocol.
const (
	tokenInQuery  = "query"
	tokenInHeader = "header"
	tokenInCookie = "cookie"
)

// tokenPlace returns where the request's token is sent, and the name that it has there.
func (c *exchange) tokenPlace() (place, name string) {
	if t := c.req.Terminal; t != nil {
		return t.TokenIn, t.TokenName
	}
	return "subprotocol", bearerPrefix
}

// putToken adds the token to a handshake's request, at its place other than a subprotocol.
func (c *exchange) putToken(r *http.Request) {
	place, name := c.tokenPlace()
	if c.req.Token.IsZero() || !c.mayReveal() {
		return
	}
	token := c.req.Token.Reveal()
	switch place {
	case tokenInQuery:
		if r.URL.RawQuery != "" {
			r.URL.RawQuery += "&"
		}
		r.URL.RawQuery += url.QueryEscape(name) + "=" + url.QueryEscape(token)
	case tokenInHeader:
		if http.CanonicalHeaderKey(name) == "Authorization" {
			token = "Bearer " + token
		}
		r.Header.Set(name, token)
	case tokenInCookie:
		cookie := (&http.Cookie{Name: name, Value: token}).String()
		if before := r.Header.Get("Cookie"); before != "" {
			cookie = before + "; " + cookie
		}
		r.Header.Set("Cookie", cookie)
	}
}
