// Command gpuaas-gpu-policy judges GPU evidence by a policy. It reads requests from stdin, one line of JSON each,
// and writes a line of JSON for each. Its callers are `gpuaasctl gpu policy` and platforms; it opens no file and
// no connection.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/policy/judge"
)

// version is set by the linker.
var version = "dev"

const usage = `usage: gpuaas-gpu-policy <requests >replies

Judges GPU evidence by a policy, for gpuaasctl gpu policy and for platforms. It reads requests from stdin, one line of
JSON each, and writes a reply for each. Package gpu/policy has both.

  version, --version   print the version

Exit codes: 0 every request was answered, 1 stdin or stdout failed, 2 usage.
`

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, in io.Reader, out, errs io.Writer) int {
	switch {
	case len(args) == 0:
		if err := judge.Serve(in, out, build()); err != nil {
			fmt.Fprintf(errs, "%s: %v\n", policy.Program, err)
			return 1
		}
		return 0
	case len(args) == 1 && (args[0] == "version" || args[0] == "--version"):
		fmt.Fprintln(out, build())
		return 0
	case len(args) == 1 && (args[0] == "help" || args[0] == "-h" || args[0] == "--help"):
		fmt.Fprint(out, usage)
		return 0
	}
	fmt.Fprint(errs, usage)
	return 2
}

// build returns the version: the linker's, or else the module's, as in gpuaasctl.
func build() string {
	if version != "" && version != "dev" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}
