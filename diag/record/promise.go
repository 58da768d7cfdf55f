package record

// promises are the guarantees that a file system, by its kernel name, does not give for a file that is written in
// place.
var promises = map[string]string{
	"ext4":     "",
	"overlay":  "overlay: in place once the file is in the upper layer, whose own file system is not known here",
	"tmpfs":    "tmpfs: it is gone with the machine's power",
	"ramfs":    "ramfs: it is gone with the machine's power",
	"xfs":      "xfs: in place, unless its blocks are shared with a reflink copy",
	"btrfs":    "btrfs: copy-on-write: a full disk may refuse a write",
	"zfs":      "zfs: copy-on-write: a full disk may refuse a write",
	"bcachefs": "bcachefs: copy-on-write: a full disk may refuse a write",
	"f2fs":     "f2fs: log-structured: a full disk may refuse a write",
	"nfs":      "nfs: the server decides when a write is on its disk",
	"fuse":     "fuse: its server decides when a write is on a disk",
}

// MissingGuarantee describes the guarantee that a file system of that kind does not give to a record; "" if it gives
// all.
func MissingGuarantee(kind string) string {
	if p, ok := promises[kind]; ok {
		return p
	}
	return kind + ": not known to write in place"
}
