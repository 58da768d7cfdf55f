package diagcmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/profile"
)

// decodeOptions select the copy of a record, and how much of it is printed.
type decodeOptions struct {
	root, output string
	limit        int
}

func newDiagDecode(a *cmdutil.App) *cobra.Command {
	o := &decodeOptions{}
	cmd := &cobra.Command{
		Use:   "decode FILE|FOLDER | --root FOLDER",
		Short: "Read a record from a copy or from a dead node's disk",
		Long: `Reads one file of a record, or the folder of both, without touching anything. --root is where a dead node's disk is
mounted: the record is found below it, and no link on that disk, also to an absolute path, leads out of it. Slots that
are torn or flipped are reported, never trusted.

Exit codes: 0 read, 2 usage, or FILE is not a record, 3 read, and the record is damaged or says that it is degraded,
5 nothing could be read.`,
		Example: `  gpuaasctl diag decode ./record
  gpuaasctl diag decode /mnt/copy/diag -o json
  gpuaasctl diag decode --root /mnt/dead-node`,
		Args: cmdutil.Args(0, 1),
		RunE: cmdutil.Run(a, o, decode),
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&o.root, "root", "",
		"`FOLDER` where the node's disk is mounted; FILE or FOLDER is then a path on that disk (default: "+
			profile.DefaultAgentRecord+")")
	limitFlag(cmd, &o.limit)
	cmdutil.PageFlag(cmd, &o.output, cmdutil.FormatNDJSON)
	return cmd
}

func decode(a *cmdutil.App, cmd *cobra.Command, o *decodeOptions, args []string) error {
	if err := checkLimit(cmd, o.limit); err != nil {
		return err
	}
	path := strings.Join(args, "")
	if path == "" && o.root == "" {
		return &cmdutil.UsageError{Err: errors.New("nothing to read: name a FILE, a FOLDER, or --root"),
			Command: cmd.CommandPath()}
	}
	f, err := readRecordAt(o.root, path)
	switch {
	case err == nil:
	case errors.Is(err, errNoRecord), o.root == "" && errors.Is(err, fs.ErrNotExist): // the caller named another file
		return &cmdutil.UsageError{Err: err}
	default:
		return a.NotMeasured(err)
	}
	return writeRecord(a, ops.NewRecord("", record.Newest(f, o.limit)), o.output)
}

// errNoRecord is wrapped by every error about a path without a record.
var errNoRecord = errors.New("not a node record")

// isRecord refuses a file of size bytes without any part of a record, even a damaged one. A file of empty slots is a
// record in which nothing was written yet.
func isRecord(f *diag.RecordFacts, size int64) error {
	if f.Valid > 0 {
		return nil
	}
	switch ofOne := func(d diag.DamagedSlot) bool { return d.Why != string(record.Format) }; {
	case size == 0:
		return fmt.Errorf("%s: %w: it is empty", f.Path, errNoRecord)
	case size%record.Size != 0, size > record.Slots*record.Size:
		return fmt.Errorf("%s: %w: %d bytes are not the size of one, and no slot in it has the format", f.Path, errNoRecord,
			size)
	case len(f.Damaged) > 0 && !slices.ContainsFunc(f.Damaged, ofOne):
		return fmt.Errorf("%s: %w: none of its %d slots has the format of one", f.Path, errNoRecord, f.Slots)
	}
	return nil
}

// readRecordAt reads a file, or the folder of a record's files; below root if that is given.
func readRecordAt(root, path string) (diag.RecordFacts, error) {
	shown := path
	if root != "" {
		if st, err := os.Stat(root); err == nil && !st.IsDir() {
			return diag.RecordFacts{}, fmt.Errorf("--root %s: %w: not a folder", root, errNoRecord)
		} else if errors.Is(err, fs.ErrNotExist) {
			return diag.RecordFacts{}, fmt.Errorf("--root %s: %w: there is no such folder", root, errNoRecord)
		}
		path = cmp.Or(path, profile.DefaultAgentRecord)
		shown = filepath.Join(root, path)
		inside, err := resolveIn(root, path)
		if err != nil {
			return diag.RecordFacts{}, fmt.Errorf("find the record below %s: %w", root, err)
		}
		path = inside
	} else if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	st, err := os.Stat(path)
	if err != nil {
		return diag.RecordFacts{}, err
	}
	if !st.IsDir() && !st.Mode().IsRegular() {
		return diag.RecordFacts{}, fmt.Errorf("%s: %w: not a regular file", shown, errNoRecord)
	}
	read, folder := func(fsys fs.FS) (diag.RecordFacts, error) { return record.ReadFile(fsys, filepath.Base(path)) },
		filepath.Dir(path)
	if st.IsDir() {
		read, folder = record.Read, path
	}
	within, err := os.OpenRoot(folder) // its files may not be links to other folders either
	if err != nil {
		return diag.RecordFacts{}, err
	}
	defer within.Close()
	f, err := read(within.FS())
	if errors.Is(err, fs.ErrNotExist) && st.IsDir() {
		err = fmt.Errorf("%w (a node's whole disk is read with --root %s)", err, shown)
	}
	f.Source, f.Path = record.SourceDisk, shown
	if err == nil && !st.IsDir() && root == "" { // below root, the path is a record's, whatever its content
		err = isRecord(&f, st.Size())
	}
	return f, err
}
