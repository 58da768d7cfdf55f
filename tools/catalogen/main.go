// Command catalogen generates Go tables from the catalogue, diag/catalogue/*.yaml: the meaning of hops, signals,
// reasons and the other closed vocabularies; and from gpu/xid/catalogue/*.yaml: NVIDIA's error codes. The tables are
// literals, so that no program parses YAML or builds a table when it starts. `go generate ./diag` runs it, a test fails
// if a table is older than the catalogue, and no released program links it.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	os.Exit(run(root))
}

func run(root string) int {
	tables, err := generate(root)
	for _, path := range slices.Sorted(maps.Keys(tables)) {
		if err == nil {
			err = os.WriteFile(filepath.Join(root, path), tables[path], 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// generate makes every table, by path below root. The error joins all mistakes of the catalogue, each with its file and
// line.
func generate(root string) (map[string][]byte, error) {
	c, err := readCatalogue(root)
	if err != nil {
		return nil, err
	}
	x, err := readXids(root)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, t := range tables {
		var data any = c
		if t.from == xidFolder {
			data = x
		}
		if out[t.path], err = c.write(t, data); err != nil {
			return nil, fmt.Errorf("%s: %w", t.path, err)
		}
	}
	return out, nil
}
