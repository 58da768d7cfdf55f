package vantage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Machine is what must be known of a node before one of our programs runs there once.
type Machine struct {
	Uname string // type of machine, as printed by uname -m
	As    string // who runs the program: "root", "sudo", or "login"

	have map[string]string // our programs that are installed there: path by digest
}

// Machine asks the node who the login is, and which of our programs it has at the paths, which are folders. sudo is the
// profile's: nil uses it where it asks for no password, true requires it. The vantage must be Bare, and its login
// without sudo: the program alone becomes root.
func (n *Node) Machine(ctx context.Context, sudo *bool, folders []string, ours ...Program) (Machine, error) {
	mode := "try"
	switch {
	case sudo != nil && *sudo:
		mode = "must"
	case sudo != nil:
		mode = "no"
	}
	args := []string{mode}
	for _, p := range ours {
		name, _, _ := strings.Cut(p.Name, "-"+p.Sum[:16])
		for _, dir := range folders {
			args = append(args, dir+"/"+name, p.Sum)
		}
	}
	a, err := n.Exec(ctx, Script{Text: safeFunction + machineScript, Args: args})
	if err != nil {
		return Machine{}, err
	}
	if words, refused := a.Note("refused"); refused {
		return Machine{}, fmt.Errorf("the login may not become root without a password: %s", foreign(words))
	}
	said, _ := a.Note("machine")
	m := Machine{have: map[string]string{}}
	m.As, m.Uname, _ = strings.Cut(said, " ")
	if !slices.Contains([]string{"root", "sudo", "login"}, m.As) || m.Uname == "" {
		return Machine{}, fmt.Errorf("the node's shell did not say what machine it is: %s", foreign(a.Words))
	}
	for _, note := range a.Notes {
		if rest, is := strings.CutPrefix(note, "have "); is {
			sum, path, _ := strings.Cut(rest, " ")
			m.have[sum] = path
		}
	}
	return m, nil
}

// Once is one of our programs that a node runs once, and does not keep.
type Once struct {
	Program Program
	Args    []string
	Input   string        // on its stdin, where it ends
	Library string        // a library of NVIDIA's driver to use instead of the system's; "": none
	Env     []string      // NAME=value, besides what every program gets
	Within  time.Duration // of the run; a push has its own time
	Keep    int           // bytes of its output
}

// Ran is how it ended.
type Ran struct {
	Output    []byte // the first Keep bytes of its stdout
	Code      int    // exit code, as the node's shell has it
	Words     string // of its stderr
	Installed bool   // the node had the same program, and nothing was pushed
	Unused    string // why Library was not used; "" where it was
}

// NoProgramError means that a program of ours could not be put or started on the node; the text says why.
type NoProgramError struct{ Text string }

func (e *NoProgramError) Error() string { return e.Text }

// RunOnce runs a program of ours on the node, with an environment of its own. It is pushed to a new private folder, and
// removed from there before it begins: neither a program that hangs nor a connection that ends leaves anything behind.
// While it arrives, the node's shell removes it whatever ends, and within a minute where the network is silent. An
// installed program with the same digest is used instead, if only root could have written it.
func (n *Node) RunOnce(ctx context.Context, m Machine, o Once) (Ran, error) {
	have := m.have[o.Program.Sum]
	s := Script{Text: safeFunction + onceScript, Within: o.Within, Keep: o.Keep,
		Args: []string{m.As, have, o.Program.Name, "0", o.Program.Sum, o.Input, o.Library}}
	if have == "" {
		text, err := os.ReadFile(o.Program.Path)
		if err != nil {
			return Ran{}, fmt.Errorf("read our program: %w", err)
		}
		s.Input, s.Args[3] = text, strconv.Itoa(len(text))
		s.Within += pushTimeout
	}
	s.Args = slices.Concat(s.Args, o.Env, []string{"sh", "-c", becomeScript, "sh"}, o.Args)
	a, err := n.Exec(ctx, s)
	if err != nil {
		return Ran{}, err
	}
	if why, failed := a.Note("failed"); failed {
		return Ran{}, &NoProgramError{foreign(why)}
	}
	said, ended := a.Note("exit")
	code, err := strconv.Atoi(strings.TrimPrefix(said, "code="))
	if !ended || err != nil {
		return Ran{}, errors.New("the connection ended before the program did")
	}
	r := Ran{Output: a.Output, Code: code, Words: a.Words, Installed: have != ""}
	if why, unused := a.Note("unused"); unused {
		r.Unused = foreign(why)
	}
	return r, nil
}

// safeFunction tells whether only root could have written a file: it is what root may run without further thought.
const safeFunction = `export PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
safe() {
  p=$(readlink -f -- "$1") && [ -f "$p" ] || return 1
  while [ -n "$p" ]; do
    [ -z "$(find "$p" -prune \( ! -user 0 -o -perm -020 -o -perm -002 \) 2>&1)" ] || return 1
    p=${p%/*}
  done
}
`

// machineScript prints who the login is, the type of machine, and which installed programs have the digests. Arguments:
// try, must or no (sudo), then path and digest of each program.
const machineScript = `mode=$1 as=login
shift
if [ "$(id -u)" = 0 ]; then as=root
elif [ "$mode" != no ]; then
  if words=$(sudo -n true 2>&1); then as=sudo
  elif [ "$mode" = must ]; then echo "GPUAASCTL-SENTINEL refused" $words >&2; exit 0
  fi
fi
while [ $# -ge 2 ]; do
  if safe "$1" 2>/dev/null && [ -x "$1" ] && sum=$(sha256sum <"$1") && [ "${sum%% *}" = "$2" ]; then
    echo "GPUAASCTL-SENTINEL have $2 $1" >&2
  fi
  shift 2
done
echo "GPUAASCTL-SENTINEL machine $as $(uname -m)" >&2
`

// onceScript runs a program once. Arguments: root, sudo or login; the path of an installed program, or ""; of the
// program on stdin the name, the size and the sha256 (hex); the program's input; NVIDIA's library or ""; then what env
// gets: NAME=value, and becomeScript with the program's own arguments. It takes the first folder with room in which
// programs may run. The size is allocated before the program is read, since stdin cannot be read twice.
const onceScript = `as=$1 have=$2 name=$3 size=$4 sum=$5 input=$6 lib=$7
shift 7
fail() { echo "GPUAASCTL-SENTINEL failed $1" >&2; exit 0; }
umask 077
d= t=$have
empty() { [ -z "$d" ] || { rm -f "$d/$name" "$d/.try"; rmdir "$d"; } 2>/dev/null; }
trap empty EXIT
trap 'exit 1' HUP INT PIPE TERM
if [ -z "$have" ]; then
  for c in /run "${XDG_RUNTIME_DIR:-/nonexistent}" /dev/shm /tmp /var/tmp "${HOME:-/nonexistent}"; do
    d=$(mktemp -d "$c/gpuaasctl.XXXXXXXXXX") || { d=; continue; }
    t=$d/$name
    printf '#!/bin/sh\nexit 7\n' >"$d/.try" && chmod 0700 "$d/.try" && "$d/.try"
    [ $? = 7 ] && head -c "$size" /dev/zero >"$t" && [ "$(wc -c <"$t")" -eq "$size" ] && break
    empty
    d=
  done 2>/dev/null
  tried="tried were /run, /dev/shm, /tmp, /var/tmp, and the login's own"
  [ -n "$d" ] || fail "no folder of the node has room for a program and may run it; $tried"
  rm -f "$d/.try"
  patience=$(command -v timeout) && patience="$patience 60"
  $patience cat 1<>"$t" || fail "writing $t, or it did not arrive within a minute"
  got=$(sha256sum <"$t") || fail "sha256sum is missing"
  [ "${got%% *}" = "$sum" ] || fail "what arrived has another digest"
  chmod 0700 "$t"
fi
if [ -n "$lib" ] && [ "$as" != login ] && ! safe "$lib"; then
  echo "GPUAASCTL-SENTINEL unused $lib could have been written by another user than root, or is not there" >&2
  lib=
fi
s=
[ "$as" != sudo ] || s="sudo -n"
echo "GPUAASCTL-SENTINEL begin"
printf '%s\n' "$input" | $s env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C \
  GOMEMLIMIT=48MiB ${lib:+"GPUAAS_NVML_LIBRARY=$lib"} PROGRAM="$t" FOLDER="$d" "$@"
printf '\nGPUAASCTL-SENTINEL exit code=%s\n' $? >&2
`

// becomeScript opens the program, removes what was pushed, and becomes the program, which has no name while it runs.
const becomeScript = `exec 3<"$PROGRAM" || exit 126
[ -z "$FOLDER" ] || { rm -f "$PROGRAM"; rmdir "$FOLDER"; }
unset PROGRAM FOLDER
exec /proc/self/fd/3 "$@"`
