package remote

// The scripts follow the rules of vantage.Exec: only their arguments vary. Each checks for root first.
const rootFirst = `[ "$(id -u)" = 0 ] || { echo "GPUAASCTL-SENTINEL notroot" >&2; exit 0; }
export PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
`

// faultScript runs the first program that exists. Arguments: the number of paths, the paths, then the program's
// own.
const faultScript = rootFirst + `k=$1 p=
shift
while [ "$k" -gt 0 ]; do
  [ -n "$p" ] || { [ -x "$1" ] && p=$1; }
  shift
  k=$((k-1))
done
[ -n "$p" ] || { echo "GPUAASCTL-SENTINEL missing $(uname -m)" >&2; exit 0; }
echo "GPUAASCTL-SENTINEL begin"
"$p" "$@"
printf '\nGPUAASCTL-SENTINEL exit code=%s\n' $? >&2
`

// runsScript prints a line for each drill that has a folder: its id, and the status that the program in the folder
// prints, if it exists. Arguments: folder.
const runsScript = rootFirst + `echo "GPUAASCTL-SENTINEL begin"
for p in "$1"/*/; do
  p=${p%/} r=${p%/} r=${r##*/}
  [ -d "$p" ] || continue
  echo "$r $( [ -x "$p/gpuaas-fault" ] && "$p/gpuaas-fault" status --run "$r" 2>&1 | tr '\n' ' ')"
done
printf '\nGPUAASCTL-SENTINEL exit code=0\n' >&2
`

// execScript runs a tool of the machine with both streams merged. Arguments: the tool's own.
const execScript = rootFirst + `command -v -- "$1" >/dev/null || { echo "GPUAASCTL-SENTINEL none" >&2; exit 0; }
export LC_ALL=C
echo "GPUAASCTL-SENTINEL begin"
"$@" 2>&1
printf '\nGPUAASCTL-SENTINEL exit code=%s\n' $? >&2
`

// pushScript stores its input as a program in a tmpfs, which it mounts if needed. It removes programs that another
// run left behind, including incomplete ones: a shell that is killed by a signal runs no EXIT trap, and printing
// to a closed connection raises SIGPIPE. Arguments: folder, name, sha256 (hex).
const pushScript = rootFirst + `d=$1 n=$2 sum=$3
fail() { echo "GPUAASCTL-SENTINEL failed $1" >&2; exit 0; }
umask 022
mountpoint -q "$d" || { mkdir -p "$d" && mount -t tmpfs -o size=32m,mode=0755,nosuid,nodev,exec gpuaasctl "$d"; } || fail "no tmpfs can be mounted at $d"
find "$d" -name '*gpuaas-fault-*' -mmin +120 -exec rm -f {} + 2>/dev/null
t=$d/.$n.$$
trap 'rm -f "$t"' EXIT
trap 'exit 1' HUP INT PIPE TERM
cat >"$t" || fail "writing $t"
got=$(sha256sum <"$t") || fail "sha256sum is missing"
[ "${got%% *}" = "$sum" ] || fail "what arrived has another digest"
chmod 0700 "$t" && mv -f "$t" "$d/$n" || fail "putting $d/$n in place"
echo "GPUAASCTL-SENTINEL pushed" >&2
`

// leaveScript removes every program of ours, including those of killed runs, and the tmpfs if it is empty then. A
// run in progress pushes the program again. Arguments: folder.
const leaveScript = rootFirst + `d=$1
rm -f "$d"/gpuaas-fault-* "$d"/.gpuaas-fault-* || { echo "GPUAASCTL-SENTINEL failed removing $d/gpuaas-fault-*" >&2; exit 0; }
if [ -d "$d" ] && [ -z "$(ls -A "$d")" ]; then
  if mountpoint -q "$d"; then umount "$d" 2>/dev/null; fi
  rmdir "$d" 2>/dev/null
fi
echo "GPUAASCTL-SENTINEL gone" >&2
`

// leftScript lists our programs in the folder. Arguments: folder.
const leftScript = rootFirst + `echo "GPUAASCTL-SENTINEL begin"
for p in "$1"/gpuaas-fault-* "$1"/.gpuaas-fault-*; do
  [ ! -e "$p" ] || echo "$p"
done
printf '\nGPUAASCTL-SENTINEL exit code=0\n' >&2
`
