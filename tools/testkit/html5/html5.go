// Package html5 checks that a page of ours is HTML that every browser parses alike and that can do nothing: only known
// elements and attributes, each closed, none moved by a browser, no id, no link, and a content security policy that
// allows only its one style. Tests call it.
package html5

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// element is what an element may have: attributes, and its allowed parents; none: any parent.
type element struct{ attributes, parents []string }

func in(parents ...string) element { return element{parents: parents} }

func (e element) with(attributes ...string) element {
	e.attributes = attributes
	return e
}

// elements are the allowed elements of a page. None loads, runs or links anything.
var elements = map[string]element{
	"html":    element{}.with("lang"),
	"head":    in("html"),
	"meta":    in("head").with("charset", "http-equiv", "name", "content"),
	"title":   in("head"),
	"style":   in("head"),
	"body":    in("html"),
	"main":    in("body"),
	"h1":      in("main").with("class"),
	"h2":      in("main", "details"),
	"h3":      in("main", "details"),
	"p":       in("main", "details", "td").with("class"),
	"span":    in("p", "td").with("class"),
	"dl":      in("main", "details", "td"),
	"div":     in("dl"),
	"dt":      in("div"),
	"dd":      in("div").with("class"),
	"code":    in("dd", "li"),
	"ol":      in("main", "details", "td").with("start"),
	"li":      in("ol"),
	"pre":     in("main", "details", "td"),
	"table":   in("main", "details", "td").with("role"),
	"thead":   in("table").with("role"),
	"tbody":   in("table").with("role"),
	"tr":      in("thead", "tbody").with("role"),
	"th":      in("tr").with("role", "scope", "class"),
	"td":      in("tr").with("role", "class", "colspan", "data-title"),
	"details": in("main", "details").with("open"),
	"summary": in("details"),
}

// policyFor returns the policy that allows only a style.
func policyFor(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'"
}

// Check returns the mistakes in a page.
func Check(page []byte) error {
	written, err := tags(page)
	if err != nil {
		return err
	}
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		return err
	}
	var read []string
	var wrong []error
	policy, style := "", ""
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		read = append(read, n.Data)
		wrong = append(wrong, place(n))
		switch {
		case n.Data == "style" && (policy == "" || style != ""):
			wrong = append(wrong, errors.New("a style before the policy, or a second one"))
		case n.Data == "style":
			style = text(n)
		case n.Data == "meta" && attribute(n, "http-equiv") == "Content-Security-Policy":
			policy = attribute(n, "content")
		}
	}
	if policy != policyFor(style) {
		wrong = append(wrong, fmt.Errorf("the policy is %q, want %q", policy, policyFor(style)))
	}
	if !slices.Equal(written, read) {
		wrong = append(wrong,
			fmt.Errorf("a browser reads other elements than are written: %d of %d", len(read), len(written)))
	}
	return errors.Join(wrong...)
}

// tags lists the elements as they are written, each of which must be closed.
func tags(page []byte) (names []string, err error) {
	var open []string
	for z := html.NewTokenizer(bytes.NewReader(page)); ; {
		switch z.Next() {
		case html.ErrorToken:
			if len(open) > 0 {
				return nil, fmt.Errorf("<%s> is not closed", strings.Join(open, "> <"))
			}
			if err := z.Err(); !errors.Is(err, io.EOF) {
				return nil, err
			}
			return names, nil
		case html.StartTagToken:
			t := z.Token()
			row, known := elements[t.Data]
			if !known {
				return nil, fmt.Errorf("<%s> is no element of a page", t.Data)
			}
			for _, a := range t.Attr {
				if !slices.Contains(row.attributes, a.Key) {
					return nil, fmt.Errorf("<%s %s> is no attribute of a page", t.Data, a.Key)
				}
			}
			names = append(names, t.Data)
			if t.Data != "meta" {
				open = append(open, t.Data)
			}
		case html.EndTagToken:
			name := z.Token().Data
			if len(open) == 0 || open[len(open)-1] != name {
				return nil, fmt.Errorf("</%s> within <%s>", name, strings.Join(open, "> <"))
			}
			open = open[:len(open)-1]
		case html.SelfClosingTagToken, html.CommentToken:
			return nil, fmt.Errorf("%q is no part of a page", z.Raw())
		}
	}
}

// place checks an element's parent, and a fold's summary.
func place(n *html.Node) error {
	if row := elements[n.Data]; row.parents != nil && !slices.Contains(row.parents, n.Parent.Data) {
		return fmt.Errorf("<%s> in <%s>", n.Data, n.Parent.Data)
	}
	first := map[string]string{"details": "summary", "div": "dt"}[n.Data]
	if first != "" && (n.FirstChild == nil || n.FirstChild.Data != first) {
		return fmt.Errorf("<%s> does not begin with <%s>", n.Data, first)
	}
	return nil
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func text(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}

// Text returns the visible text of a page's body, with single spaces.
func Text(page []byte) string {
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		return ""
	}
	var parts []string
	for n := range root.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "style" && n.Parent.Data != "title" {
			parts = append(parts, n.Data)
		}
	}
	return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
}
