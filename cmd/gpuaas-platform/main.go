// Command gpuaas-platform is the reference control plane of the lab.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
