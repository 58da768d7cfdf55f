package diagcmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
	"github.com/gpuaas/gpuaasctl/diag/evidence"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// classifyFile classifies the evidence in a file or a folder; nil if path does not exist. An invalid file is a usage
// error.
func classifyFile(a *cmdutil.App, ctx context.Context, path string) (*classified, error) {
	if !isFile(path) {
		if strings.ContainsRune(path, filepath.Separator) {
			return nil, cmdutil.Usagef("%s: there is no such file", path)
		}
		return nil, nil //nolint:nilnil // not a file: the caller looks for a node
	}
	doc, err := classifyAt(a, ctx, path)
	if err != nil {
		return nil, &cmdutil.UsageError{Err: fmt.Errorf("%s: %w", path, err)}
	}
	doc.Head = diag.NewHead(kindClassification)
	return doc, nil
}

func classifyAt(a *cmdutil.App, ctx context.Context, path string) (*classified, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		f, err := record.Read(os.DirFS(path))
		if err != nil {
			return nil, fmt.Errorf("read record: %w", err)
		}
		return classifyRecord(&f), nil
	}
	data, err := a.ReadAll(ctx, path)
	if err != nil {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}): // gzip
		return classifyBundle(a, data)
	case bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")):
		return classifyJSON(a, data)
	}
	if path == "-" {
		return nil, errors.New("neither a report nor a bundle; a record is named by its file")
	}
	f, err := readRing(path)
	if err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	if f.Valid == 0 {
		return nil, fmt.Errorf("neither a report, nor a bundle, nor a record: no slot of %d holds an entry", f.Slots)
	}
	return classifyRecord(&f), nil
}

// readRing reads one file of a record, and the other one if it is in the same folder: only the pinned ring has
// contacts.
func readRing(path string) (diag.RecordFacts, error) {
	dir, name := filepath.Split(path)
	dir = cmp.Or(dir, ".")
	if name == record.FileRecord || name == record.FilePinned {
		if f, err := record.Read(os.DirFS(dir)); err == nil && f.Valid > 0 {
			return f, nil
		}
	}
	return record.ReadFile(os.DirFS(dir), name)
}

// classifyJSON classifies a report, or a record as JSON: from a bundle, or from diag show or diag decode.
func classifyJSON(a *cmdutil.App, data []byte) (*classified, error) {
	var head struct {
		Kind string `json:"kind"`
	}
	err := bounded.Unmarshal(data, &head, bounded.Document())
	if errors.Is(err, bounded.ErrLimit) {
		return nil, err
	}
	// no kind: a bare record, or one from an older release
	if err == nil && (head.Kind == "" || head.Kind == ops.KindRecord) {
		f, told := &diag.RecordFacts{}, &ops.Record{}
		if unknown, err := cmdutil.ReadJSON(data, f); err == nil && f.Slots > 0 {
			a.NoteUnknown(ops.KindRecord, "", unknown)
			return classifyRecord(f), nil
		}
		if unknown, err := cmdutil.ReadJSON(data, told); err == nil && told.Record.Slots > 0 {
			a.NoteUnknown(ops.KindRecord, "", unknown)
			return classifyRecord(&told.Record), nil
		}
	}
	r, err := a.Rejudge(data)
	if err != nil {
		return nil, err
	}
	return &classified{From: "report", NodeID: r.Subject.NodeID, Classification: r.Classification}, nil
}

// classifyRecord classifies without the platform's data or the node's current boot: the record's newest boot counts as
// current.
func classifyRecord(f *diag.RecordFacts) *classified {
	record := f.InTime()
	doc := &classified{From: "record", Classification: new(classify.Classify(classify.Evidence{Record: record}))}
	for _, e := range record {
		doc.NodeID = cmp.Or(e.NodeID, doc.NodeID)
	}
	return doc
}

// classifyBundle classifies the bundle's report, or its record if the report has none.
func classifyBundle(a *cmdutil.App, data []byte) (*classified, error) {
	m, err := evidence.Open(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	doc := &classified{From: "bundle", NodeID: m.NodeID}
	var walk *diag.Report
	var kept *diag.RecordFacts
	for _, f := range m.Files {
		switch f.Path {
		case "report.json":
			if walk, err = a.Rejudge(f.Data); err != nil {
				return nil, fmt.Errorf("report.json: %w", err)
			}
			if why := verdict.Reduced(walk); why != "" {
				return nil, fmt.Errorf("report.json: %s", why)
			}
		case "node/record.json":
			kept = &diag.RecordFacts{}
			if err := bounded.Unmarshal(f.Data, kept, bounded.Document()); err != nil {
				return nil, fmt.Errorf("node/record.json: %w", err)
			}
		}
	}
	switch {
	case walk == nil && kept == nil:
		return nil, errors.New("the bundle holds neither a report nor a record")
	case walk == nil:
		doc.Classification = new(classify.Classify(classify.Evidence{Record: kept.InTime()}))
	case kept == nil:
		doc.Classification = walk.Classification
	default:
		doc.Classification = new(verdict.Classify(hops.BuiltIn(), walk, kept.InTime()))
	}
	return doc, nil
}
