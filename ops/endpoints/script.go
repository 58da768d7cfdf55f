package endpoints

// First words of the scripts' sentinel lines, and what follows them.
const (
	WordHosts   = "hosts"   // sha256, mode, uid:gid, and the text in base64
	WordLog     = "log"     // the newest line of the audit log, in base64
	WordLeft    = "left"    // the newest line that was completed, or whose digest the file has, in base64
	WordApplied = "applied" // sha256 of the file as it is now
	WordMoved   = "moved"   // sha256: the file is not the one that the plan was made for
	WordFailed  = "failed"  // why nothing was done
)

// HostsFile and LogFile are the paths on a node. The log needs neither the agent nor the journal; every line also goes
// to journald if it runs.
const (
	HostsFile = "/etc/hosts"
	LogFile   = "/var/lib/gpuaasctl/endpoints.log"
)

// checks refuses files that a rename would not replace cleanly: links, mount points (a container's hosts file), and
// anything but a regular file. Both scripts begin with it; $1 is the hosts file.
const checks = `f=$1
say() { echo "GPUAASCTL-SENTINEL $*"; }
fail() { say "failed $*"; exit 0; }
[ ! -L "$f" ] || fail "$f is a symbolic link to $(readlink "$f"): put the names where it leads, by whatever manages that file"
[ -f "$f" ] || fail "$f is not a regular file"
if awk -v f="$f" '$5 == f { found = 1 } END { exit !found }' /proc/self/mountinfo; then
  fail "$f is mounted from somewhere else (a container's file?): it cannot be replaced from here"
fi
case $(lsattr -d "$f" 2>/dev/null | cut -d' ' -f1) in *[ia]*) fail "$f is immutable or append-only (chattr): somebody does not want it changed" ;; esac
`

// ReadScript reads, and writes nothing. Arguments: hosts file, log file. It opens the file once, so that digest, mode
// and text are of one file even if it is replaced meanwhile.
const ReadScript = checks + `exec 8<"$f" || fail "$f cannot be read"
now=/proc/self/fd/8
have=$(sha256sum <$now | cut -d' ' -f1)
say "hosts $have $(stat -L -c '%a %u:%g' $now) $(base64 $now | tr -d '\n')"
[ -s "$2" ] || exit 0
say "log $(tail -n 1 "$2" | base64 | tr -d '\n')"
left=$(grep -e '"done":true}$' -e '"after":"'"$have"'"' "$2" | tail -n 1)
[ -z "$left" ] || say "left $(printf '%s\n' "$left" | base64 | tr -d '\n')"
`

// ApplyScript replaces the hosts file by its input if the file is still the one that the plan was made for. Arguments:
// hosts file, its sha256, the new text's sha256, log file, the line for the log.
//
// One lock serializes all callers. The script writes a new file next to the old one, with the same mode, owner and
// attributes, and syncs it. It writes the line to the log and syncs that before anything changes, checks the digest
// once more, renames the file, syncs the folder, and writes the line again with "done". An undo ignores a line without
// "done" unless its "after" is the file's digest: the machine may have crashed in between. A program that does not use
// the lock may still write between the last check and the rename, some hundred microseconds.
const ApplyScript = checks + `want=$2 new=$3 log=$4 line=$5
umask 077
mkdir -p "${log%/*}" || fail "no folder for the audit log ${log%/*}: nothing was changed"
exec 9>>"$log.lock" || fail "no lock beside $log: nothing was changed"
flock -w 5 9 || fail "another process holds $log.lock, which guards $f"
digest() { sha256sum <"$1" | cut -d' ' -f1; }
have=$(digest "$f")
[ "$have" = "$want" ] || { say "moved $have"; exit 0; }
d=${f%/*}
t=$(mktemp "$d/.hosts.gpuaasctl.XXXXXX") || fail "no new file in $d: nothing was changed"
trap 'rm -f "$t"' EXIT
trap 'exit 1' HUP INT PIPE TERM
cat >"$t" && [ "$(digest "$t")" = "$new" ] || fail "the file did not arrive complete (a full disk?): nothing was changed"
cp --attributes-only --preserve=all "$f" "$t" && touch "$t" && sync "$t" || fail "mode and owner of $f could not be kept: nothing was changed"
printf '%s\n' "$line" >>"$log" && sync "$log" "${log%/*}" || fail "the audit log $log cannot be written: nothing was changed"
have=$(digest "$f")
[ "$have" = "$want" ] || { say "moved $have"; exit 0; }
mv -f "$t" "$f" || fail "$f could not be replaced: nothing was changed"
trap - EXIT
trap '' HUP INT PIPE TERM
sync "$d"
{ printf '%s\n' "${line%\}},\"done\":true}" >>"$log" && sync "$log"; } 2>/dev/null
logger -t gpuaasctl -- "$line" 2>/dev/null
say "applied $(digest "$f")"
`
