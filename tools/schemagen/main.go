// Command schemagen writes the JSON Schemas of the reports, of drills and of GPU policies from the Go types. go
// generate runs it; no released program links it.
package main

import (
	"fmt"
	"os"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	of := map[string]func() ([]byte, error){"report": generate, "scenario": generateScenario, "book": generateGameDay,
		"drill": generateDrill, "gpu-policy": generateGPUPolicy, "gpu-judgement": generateGPUJudgement}
	if len(args) != 2 || of[args[0]] == nil {
		fmt.Fprintln(os.Stderr, "usage: schemagen report|scenario|book|drill|gpu-policy|gpu-judgement FILE")
		return 2
	}
	b, err := of[args[0]]()
	if err == nil {
		err = os.WriteFile(args[1], b, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		return 1
	}
	return 0
}
