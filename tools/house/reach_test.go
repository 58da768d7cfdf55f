package house

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// hostCalls are the calls that need more than the process of a test, with what they do.
var hostCalls = map[string]string{
	"exec.Command": "starts a program", "exec.CommandContext": "starts a program", "os.StartProcess": "starts a program",
	"syscall.Exec": "starts a program", "testscript.Run": "starts a program",
	"net.Dial": "dials", "net.DialTimeout": "dials", "net.DialUDP": "dials", "net.DialTCP": "dials",
	"net.DialUnix": "dials",
	"net.Dialer":   "dials", "tls.Dial": "dials", "tls.Dialer": "dials",
	"net.Listen": "listens", "net.ListenTCP": "listens", "net.ListenUDP": "listens", "net.ListenUnix": "listens",
	"net.ListenPacket": "listens", "net.ListenConfig": "listens", "tls.Listen": "listens",
	"httptest.NewServer": "listens", "httptest.NewTLSServer": "listens", "httptest.NewUnstartedServer": "listens",
	"miniredis.RunT": "listens", "miniredis.Run": "listens",
	"time.Sleep": sleeps,
}

const sleeps = "sleeps"

// decl is a function, method or variable of the tests of a folder, or of a package that serves tests.
type decl struct {
	file    string
	calls   []use // of hostCalls
	refs    []use // names of other declarations that it mentions: "name", or "folder.name" of another package
	guarded bool  // calls tier.NeedsHost
}

// use is a name that is mentioned, within synctest.Test or not: there, waiting takes no time.
type use struct {
	name   string
	bubble bool
}

// of returns the folder and the bare name of what is mentioned in folder.
func (u use) of(folder string) (in, name string) {
	if i := strings.LastIndex(u.name, "."); i >= 0 {
		return u.name[:i], u.name[i+1:]
	}
	return folder, u.name
}

// testDecls returns the declarations of all tests, and of all packages that serve tests, by folder and name. Methods
// are known by their bare name, so that a caller of any method of a name counts as a caller of all: types are not
// resolved.
func testDecls(t *testing.T) map[string]map[string][]*decl {
	t.Helper()
	all := map[string]map[string][]*decl{}
	eachFile(t, func(rel string, file *ast.File, line func(ast.Node) int) {
		folder := path.Dir(rel)
		if !strings.HasSuffix(rel, "_test.go") && !servesTests(folder) {
			return
		}
		if all[folder] == nil {
			all[folder] = map[string][]*decl{}
		}
		for name, ds := range declsOf(file) {
			for _, d := range ds {
				d.file = rel
				all[folder][name] = append(all[folder][name], d)
			}
		}
	})
	return all
}

// servesTests reports whether a folder is no program's: what is in it serves tests alone.
func servesTests(folder string) bool {
	return strings.HasPrefix(folder, "tools/testkit/") || (strings.HasSuffix(folder, "test") && folder != "tools/baretest")
}

// declsOf returns the declarations of a file by name.
func declsOf(file *ast.File) map[string][]*decl {
	imports := map[string]string{} // the name in the file -> a folder of ours that serves tests, or ""
	for _, spec := range file.Imports {
		full := strings.Trim(spec.Path.Value, `"`)
		name := path.Base(full)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		folder, ours := strings.CutPrefix(full, module)
		if !ours || !servesTests(folder) {
			folder = ""
		}
		imports[name] = folder
	}
	found := map[string][]*decl{}
	add := func(name string, n ast.Node) {
		d := &decl{}
		d.read(n, imports, false)
		found[name] = append(found[name], d)
	}
	for _, top := range file.Decls {
		switch top := top.(type) {
		case *ast.FuncDecl:
			if top.Body != nil && (top.Recv == nil || top.Name.Name != "Run") { // too many have a method of this name
				add(top.Name.Name, top.Body)
			}
		case *ast.GenDecl:
			if top.Tok != token.VAR {
				continue
			}
			for _, spec := range top.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					add(name.Name, spec)
				}
			}
		}
	}
	return found
}

// ofTesting are the usual names of a test's own handle, whose methods are not ours.
var ofTesting = []string{"t", "b", "f", "m", "tb"}

// read collects what n mentions.
func (d *decl) read(n ast.Node, imports map[string]string, bubble bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if selected(n.Fun) == "synctest.Test" && !bubble {
				for _, arg := range n.Args {
					d.read(arg, imports, true)
				}
				return false
			}
		case *ast.SelectorExpr:
			on, _ := n.X.(*ast.Ident)
			name := selected(n)
			switch {
			case name == "tier.NeedsHost":
				d.guarded = true
			case hostCalls[name] != "":
				d.calls = append(d.calls, use{name, bubble})
			case on != nil && slices.Contains(ofTesting, on.Name):
			case on != nil && imports[on.Name] != "":
				d.refs = append(d.refs, use{imports[on.Name] + "." + n.Sel.Name, bubble})
			default:
				if _, imported := imports[name]; on == nil || !imported {
					d.refs = append(d.refs, use{n.Sel.Name, bubble})
				}
				ast.Inspect(n.X, func(ast.Node) bool { return true })
				d.read(n.X, imports, bubble)
			}
			return false
		case *ast.KeyValueExpr: // a field's name is no use of a declaration
			if _, plain := n.Key.(*ast.Ident); plain {
				d.read(n.Value, imports, bubble)
				return false
			}
		case *ast.Ident:
			d.refs = append(d.refs, use{n.Name, bubble})
		}
		return true
	})
}

// selected returns "x.Sel" of a selector on a plain name, or "".
func selected(n ast.Node) string {
	if s, is := n.(*ast.SelectorExpr); is {
		if on, is := s.X.(*ast.Ident); is {
			return on.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// way returns how a declaration reaches a call of hostCalls through none that is guarded: the names, and what the last
// one does. It is nil if there is no way.
func way(all map[string]map[string][]*decl, folder, name string, bubble bool, seen map[string]bool) []string {
	key := folder + "." + name
	if bubble {
		key += " bubble"
	}
	if seen[key] {
		return nil
	}
	seen[key] = true
	for _, d := range all[folder][name] {
		if d.guarded {
			continue
		}
		for _, c := range d.calls {
			if what := hostCalls[c.name]; what != sleeps || !(bubble || c.bubble || maySleep[d.file+" "+name] == virtual) {
				return []string{name, c.name + ", which " + what}
			}
		}
		for _, r := range d.refs {
			of, called := r.of(folder)
			if rest := way(all, of, called, bubble || r.bubble, seen); rest != nil {
				return append([]string{name}, rest...)
			}
		}
	}
	return nil
}

// needsHost reports whether a declaration, or what it mentions, calls tier.NeedsHost.
func needsHost(all map[string]map[string][]*decl, folder, name string, seen map[string]bool) bool {
	if seen[folder+"."+name] {
		return false
	}
	seen[folder+"."+name] = true
	for _, d := range all[folder][name] {
		if d.guarded {
			return true
		}
		for _, r := range d.refs {
			if of, called := r.of(folder); needsHost(all, of, called, seen) {
				return true
			}
		}
	}
	return false
}
