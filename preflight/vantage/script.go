package vantage

import (
	"strconv"
	"strings"
)

// sentinel begins every line that our own scripts write. An exit status proves little (255 may be ssh's or the
// command's), and a login may print a greeting on the same stream, so only these lines and the helper's own JSON are
// trusted.
const sentinel = "GPUAASCTL-SENTINEL"

// pushDir is where pushed helpers are: an exec tmpfs of our own, because many hosts mount /run noexec, and a disk may
// be full.
const pushDir = "/run/gpuaasctl"

// runScript starts the helper: a pushed one of ours by name, else the installed one if its digest is one of ours. It
// never starts anything else, whatever is at the installed path. Arguments: sudo or "", installed path, unit,
// environment file, first requests (lines, may be empty), "any" or "", then name and sha256 of each of our helpers.
// "any" also accepts a gpuaas-agent of another build: an ELF program with that name in its Go build info, which follows
// a 16-byte mark. It reads at most 64 MiB, with openssl if installed, which is three times as fast as most builds of
// sha256sum. It prints which helper it starts, and how that ended.
//
// First requests travel in the command because an OpenSSH server gives a channel no window before the command runs:
// sent as data, they would cost one more round trip.
const runScript = `s=$1 installed=$2 unit=$3 env=$4 first=$5 any=$6 h= how=installed sums=
shift 6
[ $# = 0 ] || u=$(id -u)
while [ $# -ge 2 ]; do
  for d in /run/gpuaasctl "${XDG_RUNTIME_DIR:-/nonexistent}/gpuaasctl" "/dev/shm/gpuaasctl-$u"; do
    case $d in /run/gpuaasctl) ;; *) [ -O "$d" ] && [ ! -L "$d" ] || continue ;; esac
    [ -z "$h" ] && [ -x "$d/$1" ] && h=$d/$1 how=pushed
  done
  sums="$sums $2 "
  shift 2
done
text() { if [ -r "$installed" ]; then head -c 67108864 "$installed"; else sudo -n head -c 67108864 "$installed"; fi 2>/dev/null; }
ours() {
  [ -f "$installed" ] && [ -x "$installed" ] || return 1
  if [ -n "$sums" ]; then
    sum=$(text | if command -v openssl >/dev/null; then openssl dgst -sha256 -r; else sha256sum; fi) || return 1
    case $sums in *" ${sum%% *} "*) return 0 ;; esac
  fi
  [ -n "$any" ] && [ "$(text | head -c 4)" = "$(printf '\177ELF')" ] &&
    text | LC_ALL=C grep -aq "$(printf '\060\167\257\014\222\164\010\002\101\341\301\007\346\326\030\346path\t')[^ ]*/cmd/gpuaas-agent$"
}
[ -z "$h" ] && ours && h=$installed
if [ -z "$h" ]; then echo "GPUAASCTL-SENTINEL missing uname=$(uname -m)"; exit 0; fi
echo "GPUAASCTL-SENTINEL start how=$how path=$h"
run() {
  if [ -n "$s" ]; then sudo -n "$h" probe --unit "$unit" --env-file "$env"; else "$h" probe --unit "$unit" --env-file "$env"; fi
  echo "GPUAASCTL-SENTINEL exit code=$? uname=$(uname -m)"
}
if [ -n "$first" ]; then { printf '%s\n' "$first"; exec cat; } | run; else run; fi
`

// pushScript stores stdin as a helper. Arguments: name, sha256 (hex). A root login (or sudo) uses the tmpfs; a login
// without root uses a folder of its own on a file system where programs may run. It removes the incomplete file even if
// the connection ends first: a shell that is killed by a signal runs no EXIT trap, and printing to a closed connection
// raises SIGPIPE. A walk ends so as soon as it needs no more of a node.
const pushScript = `n=$1 sum=$2 d=
fail() { echo "GPUAASCTL-SENTINEL failed $1"; exit 0; }
umask 022
if [ "$(id -u)" = 0 ]; then
  if mountpoint -q /run/gpuaasctl || { mkdir -p /run/gpuaasctl && mount -t tmpfs -o size=32m,mode=0755,nosuid,nodev,exec gpuaasctl /run/gpuaasctl; }; then d=/run/gpuaasctl; fi
fi
if [ -z "$d" ]; then
  for c in "${XDG_RUNTIME_DIR:-/nonexistent}/gpuaasctl" "/dev/shm/gpuaasctl-$(id -u)"; do
    mkdir -m 0700 "$c" 2>/dev/null
    [ -d "$c" ] && [ ! -L "$c" ] && [ -O "$c" ] || continue
    printf '#!/bin/sh\nexit 7\n' >"$c/.try.$$" && chmod 0700 "$c/.try.$$" && "$c/.try.$$" 2>/dev/null
    ok=$?
    rm -f "$c/.try.$$"
    if [ "$ok" = 7 ]; then d=$c; break; fi
  done
fi
[ -n "$d" ] || fail "no place on the node where a pushed program may run"
find "$d" -name '*gpuaas-agent-*' -mmin +120 -exec rm -f {} + 2>/dev/null
t=$d/.$n.$$
trap 'rm -f "$t"' EXIT
trap 'exit 1' HUP INT PIPE TERM
cat >"$t" || fail "writing $t"
got=$(sha256sum <"$t") || fail "sha256sum is missing"
[ "${got%% *}" = "$sum" ] || fail "what arrived has another digest"
chmod 0755 "$t" && mv -f "$t" "$d/$n" || fail "putting $d/$n in place"
echo "GPUAASCTL-SENTINEL pushed path=$d/$n"
`

// removeScript removes pushed helpers, and the tmpfs if it contains nothing else. In a place where any user can create
// a folder, it removes the folder only if this login owns it and it is not a link. It only ever unmounts the tmpfs.
const removeScript = `u=$(id -u)
for d in /run/gpuaasctl "${XDG_RUNTIME_DIR:-/nonexistent}/gpuaasctl" "/dev/shm/gpuaasctl-$u"; do
  case $d in /run/gpuaasctl) ;; *) [ -O "$d" ] && [ ! -L "$d" ] || continue ;; esac
  [ -d "$d" ] || continue
  rm -f "$d"/gpuaas-agent-* "$d"/.gpuaas-agent-* 2>/dev/null
  [ -z "$(ls -A "$d")" ] || continue
  if [ "$d" = /run/gpuaasctl ] && mountpoint -q "$d"; then umount "$d" || umount -l "$d"; fi
  rmdir "$d" || { echo "GPUAASCTL-SENTINEL failed removing $d"; exit 0; }
done
echo "GPUAASCTL-SENTINEL removed"
`

// command returns an SSH exec string that runs script with args using the node's sh, whatever the login's shell is.
func command(script string, sudo bool, args ...string) string {
	argv := []string{"sh", "-c", script, "sh"}
	if sudo {
		argv = append([]string{"sudo", "-n"}, argv...)
	}
	return Quote(append(argv, args...))
}

// scriptLine is one sentinel line: its word and its fields. The values of path and failed extend to the end of the
// line.
type scriptLine struct {
	word  string // missing | start | exit | failed | pushed | removed
	how   string // in start: installed | pushed
	path  string // in start and pushed
	uname string // in missing and exit
	code  int    // in exit; -1 if it cannot be parsed
	text  string // in failed
}

// parseNote parses a line; false if it is not a note.
func parseNote(line string) (scriptLine, bool) {
	rest, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), sentinel+" ")
	if !ok {
		return scriptLine{}, false
	}
	n := scriptLine{code: -1}
	n.word, rest, _ = strings.Cut(rest, " ")
	if n.word == "failed" {
		n.text = rest
		return n, true
	}
	if before, path, ok := strings.Cut(rest, "path="); ok {
		rest, n.path = before, path
	}
	for field := range strings.FieldsSeq(rest) {
		switch key, value, _ := strings.Cut(field, "="); key {
		case "how":
			n.how = value
		case "uname":
			n.uname = value
		case "code":
			if c, err := strconv.Atoi(value); err == nil {
				n.code = c
			}
		}
	}
	return n, true
}
