package chaos

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/node"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// SurveyScript collects the facts that SurveyArgs ask for, and writes nothing. It labels each answer with its
// argument's number, so that no file content can pass for an answer.
//
// It searches for the operator's end of the connection in the environments of the parent processes, since sudo
// removes it from its own.
const SurveyScript = `PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
say() { echo "GPUAASCTL-SENTINEL $*"; }
b64() { base64 | tr -d '\n'; }
say "now $(date -u +%s) $(id -u)"
p=$$ c=
while [ "${p:-0}" -gt 1 ] && [ -z "$c" ]; do
  c=$(tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | sed -n 's/^SSH_CONNECTION=//p' | head -n 1)
  p=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$p/status" 2>/dev/null)
done
say "ssh $c"
[ -f /sys/fs/cgroup/cgroup.controllers ] && say "cgroup2"
nft list tables >/dev/null 2>&1 && say "nft"
for d in "$1"/*/journal; do [ -f "$d" ] && d=${d%/journal} && say "drill ${d##*/} $([ -x "$d/gpuaas-fault" ] && "$d/gpuaas-fault" status --run "${d##*/}" 2>/dev/null | b64)"; done
[ -e "$2" ] && say "consent $(stat -c '%u:%a:%F' "$2" | tr ' ' '_') $(b64 <"$2")"
shift 2
n=0
for a in "$@"; do
  v=${a#*:}
  case $a in
  tool:*) t=; for d in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do [ -z "$t" ] && [ -f "$d/$v" ] && [ -x "$d/$v" ] && t=$d/$v; done; say "at $n $t" ;;
  name:*) say "at $n $(getent ahosts -- "$v" | cut -d ' ' -f 1 | sort -u | tr '\n' ' ')" ;;
  user:*) say "at $n $(getent passwd -- "$v" | b64)" ;;
  unit:*) i=$(systemctl show -P MainPID -- "$v" 2>/dev/null)
    private=no; [ "${i:-0}" -gt 0 ] && [ "$(readlink "/proc/$i/ns/mnt")" != "$(readlink /proc/1/ns/mnt)" ] && private=yes
    say "at $n $(systemctl show -p Id -p LoadState -p ActiveState -p MainPID -p User -- "$v" 2>/dev/null | tr '\n' ' ')Private=$private" ;;
  file:*|text:*)
    if [ -e "$v" ]; then
      real=$(readlink -f -- "$v") sum=-
      [ -f "$v" ] && sum=$(sha256sum <"$v" | cut -d ' ' -f 1)
      say "at $n $(stat -L -c '%F:%a:%u:%g:%s' -- "$v" | tr ' ' '_') $sum $(printf %s "$real" | b64)"
      case $a in text:*) [ -f "$v" ] && [ "$(stat -L -c %s -- "$v")" -le 65536 ] && say "text $n $(b64 <"$v")" ;; esac
    else say "at $n"; fi ;;
  esac
  n=$((n+1))
done
say done
`

// SurveyArgs returns the arguments of SurveyScript for the questions.
func SurveyArgs(q Questions) []string {
	args := []string{step.StateDir, step.ConsentFile}
	for _, of := range [...]struct {
		word string
		all  []string
	}{{"tool", q.Tools}, {"name", q.Names}, {"unit", q.Units}, {"file", q.Files}, {"text", q.Texts}, {"user", q.Users}} {
		for _, v := range of.all {
			args = append(args, of.word+":"+v)
		}
	}
	return args
}

// ParseSurvey parses the output of SurveyScript. args are the arguments that it ran with.
func (m *Machine) ParseSurvey(args, said []string) error {
	if len(said) == 0 || said[len(said)-1] != "done" {
		return fmt.Errorf("the survey of %s did not come to its end", m.ID)
	}
	m.make()
	asked := args[2:]
	for _, line := range said {
		word, rest, _ := strings.Cut(line, " ")
		var err error
		switch word {
		case "at", "text":
			number, answer, _ := strings.Cut(rest, " ")
			n, bad := strconv.Atoi(number)
			if bad != nil || n < 0 || n >= len(asked) {
				err = fmt.Errorf("an answer to question %q, which was not asked", number)
				break
			}
			err = m.answer(asked[n], word, strings.TrimSpace(answer))
		default:
			err = m.general(word, rest)
		}
		if err != nil {
			return fmt.Errorf("survey of %s: %w", m.ID, err)
		}
	}
	return nil
}

func (m *Machine) make() {
	if m.Tools == nil {
		m.Tools, m.Names, m.Units, m.Files, m.Users = map[string]Tool{}, map[string]Name{}, map[string]Unit{},
			map[string]File{}, map[string]User{}
	}
}

// general parses an answer that every machine gives.
func (m *Machine) general(word, rest string) error {
	words := strings.Fields(rest)
	switch word {
	case "now":
		if len(words) != 2 {
			return fmt.Errorf("no time: %q", rest)
		}
		seconds, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			return err
		}
		m.Now, m.Root = time.Unix(seconds, 0).UTC(), words[1] == "0"
	case "ssh":
		if len(words) == 4 {
			if a, err := netip.ParseAddrPort(net(words[0], words[1])); err == nil {
				m.SSH = a
			}
		}
	case "cgroup2":
		m.Cgroup2 = true
	case "nft":
		m.Nft = true
	case "drill":
		if len(words) > 1 && locks(words[1]) {
			m.Locked = strings.TrimSpace(m.Locked + " " + words[0])
		}
	case "consent":
		m.Consent = consent(words)
	}
	return nil
}

// locks reports whether an earlier drill locks the machine, according to the status that the copy of gpuaas-fault
// beside its journal reports: a finished drill does not, nor does one that died while arming, or that has no
// watchdog and has expired. If the status cannot be read, the machine itself decides later.
func locks(answer string) bool {
	text, err := base64.StdEncoding.DecodeString(answer)
	var r step.Reply
	if err != nil || bounded.Unmarshal(text, &r, bounded.Line()) != nil || r.Status == nil {
		return false
	}
	st := r.Status
	ended := (st.TTLLeft != nil && *st.TTLLeft == 0) || (st.LeaseLeft != nil && *st.LeaseLeft == 0)
	return st.Watchdog != 0 || st.State == step.Conflict || (st.Phase == step.PhaseArmed && !ended)
}

func net(host, port string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}

// consent parses a consent by the machine's own rule: only root may be able to write the file.
func consent(words []string) Consent {
	c := Consent{Present: true}
	if len(words) < 2 {
		return Consent{Present: true, Problem: "it is empty"}
	}
	of := strings.Split(words[0], ":")
	mode, err := strconv.ParseUint(of[min(1, len(of)-1)], 8, 32)
	if of[0] != "0" || err != nil || mode&0o022 != 0 || of[len(of)-1] != "regular_file" {
		c.Problem = "it must be a file that only root can write"
		return c
	}
	text, err := base64.StdEncoding.DecodeString(words[1])
	if err != nil {
		c.Problem = err.Error()
		return c
	}
	parsed, err := node.ParseConsent(string(text))
	if err != nil {
		c.Problem = err.Error()
		return c
	}
	c.Node, c.Until, c.Disposable = parsed.Node, parsed.Until, parsed.Disposable
	return c
}

// answer parses one answer.
func (m *Machine) answer(asked, word, answer string) error {
	kind, name, _ := strings.Cut(asked, ":")
	words := strings.Fields(answer)
	switch kind {
	case "tool":
		m.Tools[name] = Tool(answer)
	case "name":
		all := Name{}
		for _, w := range words {
			if a, err := netip.ParseAddr(w); err == nil && !slices.Contains(all, a.Unmap()) {
				all = append(all, a.Unmap())
			}
		}
		m.Names[name] = all
	case "unit":
		m.Units[name] = unitFacts(words)
	case "user":
		u, err := userFacts(answer)
		m.Users[name] = u
		return err
	case "file", "text":
		if word == "text" {
			text, err := base64.StdEncoding.DecodeString(answer)
			f := m.Files[name]
			f.Text = string(text)
			m.Files[name] = f
			return err
		}
		f, err := fileFacts(words)
		m.Files[name] = f
		return err
	}
	return nil
}

func unitFacts(words []string) Unit {
	u := host.ParseUnits(strings.Join(words, "\n"))[0]
	return Unit{ID: u["Id"], Loaded: u["LoadState"] == "loaded", Masked: u["LoadState"] == "masked",
		Active: u["ActiveState"], PID: u.PID(), User: u["User"], Private: u["Private"] == "yes"}
}

func userFacts(answer string) (User, error) {
	none := User{UID: -1, GID: -1}
	line, err := base64.StdEncoding.DecodeString(answer)
	if err != nil || len(line) == 0 {
		return none, err
	}
	u, err := host.ParseUser(string(line))
	if err != nil {
		return none, err
	}
	return User{UID: int(u.UID), GID: int(u.GID), Home: u.Home, Shell: u.Shell}, nil
}

func fileFacts(words []string) (File, error) {
	if len(words) == 0 {
		return File{}, nil
	}
	if len(words) != 3 {
		return File{}, fmt.Errorf("a file's answer has %d words", len(words))
	}
	of := strings.Split(words[0], ":")
	if len(of) != 5 {
		return File{}, fmt.Errorf("a file is %q", words[0])
	}
	real, err := base64.StdEncoding.DecodeString(words[2])
	mode, err1 := strconv.ParseUint(of[1], 8, 32)
	uid, err2 := strconv.Atoi(of[2])
	gid, err3 := strconv.Atoi(of[3])
	for _, e := range [...]error{err, err1, err2, err3} {
		if e != nil {
			return File{}, e
		}
	}
	f := File{Kind: "other", Path: string(real), Mode: uint32(mode), UID: uid, GID: gid}
	switch {
	case strings.HasPrefix(of[0], "regular"):
		f.Kind, f.SHA256 = "file", words[1]
	case of[0] == "directory":
		f.Kind = "dir"
	}
	return f, nil
}
