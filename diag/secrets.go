package diag

import (
	"net/url"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"
)

// ShortestSecret is the least length in bytes of a secret that is removed from texts: removing shorter ones would
// mutilate words and protect nothing.
const ShortestSecret = 6

// Secrets is a set of secrets that answers are cleaned of, whatever those look like: a server may repeat a secret that
// it got with another request. The zero value is empty, nil stays empty, and methods may be called concurrently.
type Secrets struct {
	mu    sync.Mutex
	forms []string // the longest first, so that no part of one is left
	open  []string // public texts: names of hosts, ids
}

// secretNames are parts of the names of a query's parameters whose values are secret. Others are ids and settings,
// which are on every page.
var secretNames = [...]string{
	"auth", "code", "cred", "jwt", "key", "nonce", "pass", "pwd", "secret", "sig", "ticket", "token",
}

// Secrets returns what the request carries: its token, its cookies and its query, and each secret value of those.
func (r *Request) Secrets() []Secret {
	list := []Secret{r.Token, r.Cookie, r.Query}
	for pair := range strings.SplitSeq(r.Cookie.Reveal(), ";") {
		if _, v, ok := strings.Cut(pair, "="); ok {
			list = append(list, NewSecret(strings.Trim(strings.TrimSpace(v), `"`)))
		}
	}
	values, _ := url.ParseQuery(r.Query.Reveal()) // what can be parsed of it
	for name, all := range values {
		name = strings.ToLower(name)
		if slices.ContainsFunc(secretNames[:], func(part string) bool { return strings.Contains(name, part) }) {
			for _, v := range all {
				list = append(list, NewSecret(v))
			}
		}
	}
	return list
}

// secrets returns what an answer keeps for the next request.
func (f *Fact) secrets() []Secret {
	if f.HTTP == nil {
		return nil
	}
	list := []Secret{f.HTTP.Kept}
	for _, whole := range f.HTTP.Whole {
		_, query, _ := BareURL(whole.Reveal())
		list = append(list, (&Request{Query: query}).Secrets()...)
	}
	return list
}

// Open adds texts that are public: a part of one is not learned as a secret, such as eu-north-1 of a cookie
// region=eu-north-1 if the name of a host has it.
func (s *Secrets) Open(texts ...string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, texts...)
}

// Add adds secrets.
func (s *Secrets) Add(list ...Secret) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range list {
		v := secret.Reveal()
		isOpen := func(text string) bool { return strings.Contains(text, v) }
		if len(v) < ShortestSecret || v == Redacted || slices.ContainsFunc(s.open, isOpen) {
			continue
		}
		// as a path or a query spells it, and as a header that is compared in lower case
		for _, form := range []string{v, url.QueryEscape(v), url.PathEscape(v), strings.ToLower(v)} {
			if !slices.Contains(s.forms, form) {
				s.forms = append(s.forms, form)
			}
		}
	}
	sort.SliceStable(s.forms, func(i, j int) bool { return len(s.forms[j]) < len(s.forms[i]) })
}

// Remove returns text without the secrets.
func (s *Secrets) Remove(text string) string {
	if s == nil || text == "" {
		return text
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, form := range s.forms {
		text = strings.ReplaceAll(text, form, Redacted)
	}
	return text
}

// Clean removes the secrets of every request and answer so far from the text of every section of an answer. The
// request stays as it was sent. What the fact shares with others is copied before it changes.
func (s *Secrets) Clean(f *Fact) {
	if s == nil {
		return
	}
	s.Add(append(f.Request.Secrets(), f.secrets()...)...)
	s.mu.Lock()
	none := len(s.forms) == 0
	s.mu.Unlock()
	if none {
		return
	}
	request := f.Request
	if v, changed := s.clean(reflect.ValueOf(*f)); changed {
		*f = v.Interface().(Fact)
		f.Request = request
	}
}

// clean returns v with all its text cleaned, and whether that changed anything; v itself stays. A word of a closed
// vocabulary has a type of its own, and is no text.
func (s *Secrets) clean(v reflect.Value) (reflect.Value, bool) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() != reflect.TypeFor[string]() {
			return v, false
		}
		text := s.Remove(v.String())
		return reflect.ValueOf(text), text != v.String()
	case reflect.Pointer:
		if v.IsNil() {
			return v, false
		}
		elem, changed := s.clean(v.Elem())
		if !changed {
			return v, false
		}
		out := reflect.New(v.Type().Elem())
		out.Elem().Set(elem)
		return out, true
	case reflect.Struct:
		return s.cleanParts(v, v.NumField(), v.Field, func() reflect.Value {
			out := reflect.New(v.Type()).Elem()
			out.Set(v)
			return out
		}, func(out reflect.Value, i int) reflect.Value { return out.Field(i) })
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 { // JSON of another program
			text := s.Remove(string(v.Bytes()))
			return reflect.ValueOf([]byte(text)).Convert(v.Type()), text != string(v.Bytes())
		}
		return s.cleanParts(v, v.Len(), v.Index, func() reflect.Value {
			return reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v)
		}, func(out reflect.Value, i int) reflect.Value { return out.Index(i) })
	case reflect.Map:
		return s.cleanMap(v)
	}
	return v, false
}

// cleanParts cleans the n parts of v, and copies v for the first that changes.
func (s *Secrets) cleanParts(v reflect.Value, n int, part func(int) reflect.Value, dup func() reflect.Value,
	at func(reflect.Value, int) reflect.Value) (reflect.Value, bool) {
	out, changed := v, false
	for i := range n {
		p := part(i)
		if !p.CanInterface() { // a field that is not exported has no text from outside
			continue
		}
		if cleaned, yes := s.clean(p); yes {
			if !changed {
				out, changed = dup(), true
			}
			at(out, i).Set(cleaned)
		}
	}
	return out, changed
}

// cleanMap cleans keys and values.
func (s *Secrets) cleanMap(v reflect.Value) (reflect.Value, bool) {
	out, changed := reflect.MakeMapWithSize(v.Type(), v.Len()), false
	for iter := v.MapRange(); iter.Next(); {
		key, keyChanged := s.clean(iter.Key())
		value, valueChanged := s.clean(iter.Value())
		out.SetMapIndex(key, value)
		changed = changed || keyChanged || valueChanged
	}
	if !changed {
		return v, false
	}
	return out, true
}
