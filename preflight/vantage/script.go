package vantage

import (
	"strconv"
	"strings"
)

// sentinel begins every line that our own scripts write. An exit status proves little (255 may be ssh's or the
// command's), and a login may greet on the same stream; only these lines and the helper's own JSON are believed.
const sentinel = "GPUAASCTL-SENTINEL"

// Where pushed helpers lie: an exec tmpfs of our own, because /run is noexec on common hosts and a disk may be full.
const pushDir = "/run/gpuaasctl"

// runScript starts the helper: a pushed one of ours by name, else the installed one where it is one of ours by its
// digest. Nothing else is ever started, whatever lies at the installed path. Arguments: sudo or "", installed path,
// unit, environment file, first requests (lines, may be empty), "any" or "", then name and sha256 of each of our
// helpers. With "any" a gpuaas-agent of another build is accepted: an ELF program with that name in its Go build
// info, which follows a 16-byte mark. At most 64 MiB are read, by openssl where it is there: three times as fast as
// most builds of sha256sum. It prints which one it starts, and how that ended.
//
// First requests travel in the command because an OpenSSH server gives a channel no window before the command runs:
// sent as data they would cost one more round trip.
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

// pushScript stores stdin as a helper. Arguments: name, sha256 (hex). A root login (or sudo) gets the tmpfs; a login
// without root a folder of its own where programs may run.
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
find "$d" -name 'gpuaas-agent-*' -mmin +120 -exec rm -f {} + 2>/dev/null
t=$d/.$n.$$
trap 'rm -f "$t"' EXIT
cat >"$t" || fail "writing $t"
got=$(sha256sum <"$t") || fail "sha256sum is missing"
[ "${got%% *}" = "$sum" ] || fail "what arrived has another digest"
chmod 0755 "$t" && mv -f "$t" "$d/$n" || fail "putting $d/$n in place"
echo "GPUAASCTL-SENTINEL pushed path=$d/$n"
`

// removeScript removes pushed helpers, and the tmpfs when nothing else is in it. A folder that any user may make is
// left alone unless it is this login's own and no link, as when it was made; only the tmpfs is ever unmounted.
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

// command is an SSH exec string that runs script with args by the node's sh, whatever the login's shell is.
func command(script string, sudo bool, args ...string) string {
	argv := []string{"sh", "-c", script, "sh"}
	if sudo {
		argv = append([]string{"sudo", "-n"}, argv...)
	}
	return Quote(append(argv, args...))
}

// note is one sentinel line: its word and its fields. path and failed reach to the end of the line.
type note struct {
	word  string // missing | start | exit | failed | pushed | removed
	how   string // of start: installed | pushed
	path  string // of start and pushed
	uname string // of missing and exit
	code  int    // of exit; -1 when unread
	text  string // of failed
}

// parseNote reads a line; false when it is not a note.
func parseNote(line string) (note, bool) {
	rest, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), sentinel+" ")
	if !ok {
		return note{}, false
	}
	n := note{code: -1}
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
