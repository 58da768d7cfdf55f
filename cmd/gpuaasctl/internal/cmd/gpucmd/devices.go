package gpucmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// logField says which part of the kernel log a check read.
func logField(d *page.Doc, l *diag.KernelLogFacts) {
	switch {
	case l == nil:
	case l.Blind != "":
		d.Field("kernel log", "not read: "+l.Blind, page.Plain)
	default:
		words := fmt.Sprintf("read from %s to %s", l.From.UTC().Format(time.RFC3339), l.Until.UTC().Format(time.RFC3339))
		if l.Lost > 0 {
			words += fmt.Sprintf("; the kernel no longer had %d records of this boot", l.Lost)
		}
		d.Field("kernel log", words, page.Plain)
	}
}

// devices adds what a sample has of the GPUs: what they do, by whom they are used, and how they are connected.
func devices(d *page.Doc, s *report.Sample) {
	use := [][]string{{"gpu", "name", "used", "memory", "temp", "sm clock", "mem clock", "power", "serial"}}
	processes := [][]string{{"gpu", "pid", "user", "memory", "type", "process"}}
	paths := [][]string{{"gpu", "connected to", "by"}}
	parts := [][]string{{"gpu", "mig", "profile", "memory", "uuid"}}
	for i := range s.GPUs {
		g := &s.GPUs[i]
		name := strconv.Itoa(g.Index)
		use = append(use, []string{name, g.Name, signalWords(g, report.Utilization, 1, " %"),
			ofWords(g, report.MemoryUsed, report.MemoryTotal, 1<<20, "MiB"), signalWords(g, report.Temperature, 1, " C"),
			ofWords(g, report.ClockSM, report.ClockSMMax, 1, "MHz"),
			ofWords(g, report.ClockMemory, report.ClockMemoryMax, 1, "MHz"),
			ofWords(g, report.Power, report.PowerLimit, 1000, "W"), signalWords(g, report.Serial, 1, "")})
		processes = append(processes, processRows(g)...)
		paths = append(paths, pathRows(g)...)
		for _, m := range g.MIG {
			parts = append(parts, []string{name, fmt.Sprintf("%d/%d", m.GPUInstance, m.ComputeInstance), m.Profile,
				bytesWords(m.Memory), m.UUID})
		}
	}
	for _, rows := range [][][]string{filled(use), processes, paths, parts} {
		if len(rows) > 1 {
			d.Add(page.Blank{}, cmdutil.Table(rows))
		}
	}
}

// filled leaves out the columns that no row has.
func filled(rows [][]string) [][]string {
	out := make([][]string, len(rows))
	for column := range rows[0] {
		if !slices.ContainsFunc(rows[1:], func(row []string) bool { return row[column] != "" }) {
			continue
		}
		for i, row := range rows {
			out[i] = append(out[i], row[column])
		}
	}
	return out
}

func driverWords(l *report.Library) string {
	words := l.Driver.String()
	if n, ok := l.CUDA.Number(); ok {
		words += fmt.Sprintf(", CUDA %d.%d", n/1000, n%1000/10)
	}
	if l.Path != "" {
		words += ", library " + l.Path
	}
	return words
}

// signalWords is a signal for people, in units of scale; "" if the GPU or its driver does not have it.
func signalWords(g *report.GPU, s report.Signal, scale int64, unit string) string {
	r, there := g.Signals[s]
	if n, ok := r.Number(); ok {
		return strconv.FormatInt((n+scale/2)/scale, 10) + unit
	}
	if !there || r.Unsupported || slices.Contains([]report.Why{report.NoSymbol, report.NoHandle, report.WasLost},
		r.NotAsked) {
		return ""
	}
	return r.String()
}

// ofWords is a signal and its limit: "118 of 700 W".
func ofWords(g *report.GPU, s, limit report.Signal, scale int64, unit string) string {
	words := signalWords(g, s, scale, "")
	if _, ok := g.Value(s); !ok {
		return words
	}
	if _, ok := g.Value(limit); ok {
		words += " of " + signalWords(g, limit, scale, "")
	}
	return words + " " + unit
}

func bytesWords(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n>>20, 10) + " MiB"
}

// processRows lists the processes on a GPU. Their owners chose the names.
func processRows(g *report.GPU) (rows [][]string) {
	for _, p := range g.Processes {
		user := p.User
		if user == "" && p.UID != nil {
			user = strconv.Itoa(*p.UID)
		}
		rows = append(rows, []string{strconv.Itoa(g.Index), strconv.Itoa(p.PID), user, bytesWords(p.Memory), string(p.Type),
			p.Name})
	}
	return rows
}

// pathRows lists what a GPU is connected to: by NVLinks, the links to one place together, and by PCIe.
func pathRows(g *report.GPU) (rows [][]string) {
	links := map[string]int{}
	for _, l := range g.Links {
		links[strings.TrimSpace(l.Type.String()+" "+l.Remote.String())]++
	}
	var ends []string
	for end := range links {
		ends = append(ends, end)
	}
	slices.Sort(ends)
	for _, end := range ends {
		rows = append(rows, []string{strconv.Itoa(g.Index), end, fmt.Sprintf("%d NVLinks", links[end])})
	}
	for _, p := range g.Peers {
		rows = append(rows, []string{strconv.Itoa(g.Index), fmt.Sprint("GPU ", p.GPU), "PCIe: " + p.Path.String()})
	}
	return rows
}
