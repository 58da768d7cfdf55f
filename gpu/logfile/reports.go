package logfile

import (
	"bytes"
	"strings"
)

// reports are pages and tables about GPUs, by words of their first lines. They say nothing of what the kernel logged.
var reports = []struct{ words, what string }{
	{"NVSMI LOG", "a page of nvidia-smi -q"},
	{"<nvidia_smi_log>", "a page of nvidia-smi -q -x"},
	{"nvsmi_device", "a page of nvidia-smi -q -x"},
	{"| NVIDIA-SMI ", "the table of nvidia-smi"},
	{"# HELP DCGM_", "metrics of dcgm-exporter"},
	{"# TYPE DCGM_", "metrics of dcgm-exporter"},
	{"DCGM_FI_", "metrics of dcgm-exporter"},
	{"# HELP ", "metrics of an exporter"},
	{"# TYPE ", "metrics of an exporter"},
	{"pci.bus_id", "a table of nvidia-smi --query-gpu"},
	{"utilization.gpu", "a table of nvidia-smi --query-gpu"},
	{"memory.used [MiB]", "a table of nvidia-smi --query-gpu"},
	{"(UUID: GPU-", "the list of nvidia-smi -L"},
	{"Successfully ran diagnostic", "a report of dcgmi diag"},
	{"<!DOCTYPE html", "a web page"},
	{"<html", "a web page"},
}

// headLines is how many lines that are not blank are looked at.
const headLines = 5

// reportOf returns what the text is if it is a report and its first lines have none of the driver's words.
func reportOf(head []byte) string {
	n := 0
	for line := range bytes.SplitSeq(head, []byte("\n")) {
		text := string(bytes.TrimSpace(line))
		if text == "" {
			continue
		}
		if n++; n > headLines || Marked(text) {
			return ""
		}
		for _, r := range reports {
			if strings.Contains(text, r.words) {
				return r.what
			}
		}
	}
	return ""
}
