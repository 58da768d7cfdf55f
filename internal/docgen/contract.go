package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// pathsTable lists the mapping's paths with the reference platform's spelling.
func pathsTable() string {
	return nameTable("path", "on the reference platform", profile.DefaultMapping().Paths)
}

// fieldsTable lists the mapping's fields with the reference platform's gjson paths.
func fieldsTable() string {
	return nameTable("field", "on the reference platform", profile.DefaultMapping().Fields)
}

func nameTable(left, right string, rows map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | %s |\n|---|---|\n", left, right)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&b, "| `%s` | `%s` |\n", name, rows[name])
	}
	return b.String()
}

// policyTable lists the policy's keys, defaults and bounds.
func policyTable() string {
	var b strings.Builder
	b.WriteString("| key | default | from | to | why |\n|---|--:|--:|--:|---|\n")
	for _, r := range profile.PolicyRows {
		fmt.Fprintf(&b, "| `%s` | %d | %d | %d | %s |\n", r.Key, r.Default, r.Min, r.Max, r.Why)
	}
	return b.String()
}

// exitsTable lists the exit codes.
func exitsTable() string {
	var b strings.Builder
	b.WriteString("| exit code | what |\n|--:|---|\n")
	for _, r := range diag.Exits() {
		fmt.Fprintf(&b, "| %d | %s |\n", r.Code, r.Means)
	}
	return b.String()
}

// claimsTable lists what a drill shows.
func claimsTable() string {
	var b strings.Builder
	b.WriteString("| claim | held when | else |\n|---|---|---|\n")
	for _, r := range drill.ClaimRows() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.ID, r.Held, codes(r.Else))
	}
	return b.String()
}
