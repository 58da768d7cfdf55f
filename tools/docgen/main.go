// Command docgen writes the generated parts of the documentation: the picture of the table, the pages of hops and the
// runbook, and the tables of docs/contract.md and docs/gpu.md. `make picture` runs it; a test fails if a page is out of
// date. No released program links it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() { os.Exit(run(".")) }

func run(root string) int {
	pages, err := pages(root)
	for path, text := range pages {
		if err == nil {
			err = os.WriteFile(filepath.Join(root, path), text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		return 1
	}
	return 0
}
