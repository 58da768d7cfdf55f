package house

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"
)

func TestTmpReach(t *testing.T) {
	all := testDecls(t)
	var fs []string
	for f := range all {
		fs = append(fs, f)
	}
	sort.Strings(fs)
	for _, f := range fs {
		n, b := 0, 0
		var ways []string
		var names []string
		for name := range all[f] {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			if !(strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example")) || !strings.HasSuffix(all[f][name][0].file, "_test.go") {
				continue
			}
			n++
			if w := way(all, f, name, false, map[string]bool{}); w != nil {
				b++
				ways = append(ways, strings.Join(w, " -> "))
			}
		}
		if n > 0 {
			fmt.Printf("PKG %s tests %d host %d\n", f, n, b)
			if os.Getenv("WAYS") != "" {
				for _, w := range ways {
					fmt.Println("   ", w)
				}
			}
		}
	}
}
