// Command schemagen writes the JSON Schema of the report from the Go types. It is run by go generate and never linked
// into a program that is shipped.
package main

import (
	"fmt"
	"os"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: schemagen FILE")
		return 2
	}
	b, err := generate()
	if err == nil {
		err = os.WriteFile(args[0], b, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		return 1
	}
	return 0
}
