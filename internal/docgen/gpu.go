package main

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
)

// conditionsTable lists what the conditions of a GPU policy may ask for.
func conditionsTable() string {
	var b strings.Builder
	b.WriteString("| field | type | what |\n|---|---|---|\n")
	for _, f := range policy.Fields() {
		means := f.Means
		if len(f.Words) > 0 {
			means += ": `" + strings.Join(f.Words, "` `") + "`"
		}
		fmt.Fprintf(&b, "| `%s.%s` | %s | %s |\n", f.About, f.Name, f.Type, strings.TrimPrefix(means, ": "))
	}
	return b.String()
}
