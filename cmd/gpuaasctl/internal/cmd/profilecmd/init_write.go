package profilecmd

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmd/preflightcmd"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/ops/discover"
	"github.com/gpuaas/gpuaasctl/profile"
)

// written is a profile on its way to a file.
type written struct {
	options          *initOptions
	name, path, base string // as given; the file; its name without .yaml

	found discover.Found
	draft profile.Draft
}

// caFile is the file for a CA that was presented, beside the profile.
func (w *written) caFile() string { return w.base + "-ca.pem" }

// inspect looks at what the answers name, and asks whether a CA is the right one.
func (w *written) inspect(a *cmdutil.App, cmd *cobra.Command, in *bufio.Reader) error {
	o := w.options
	p := profile.Profile{Kind: o.kind, APIBase: o.api, TerminalBase: o.terminal,
		Auth: profile.Auth{TokenFile: o.token}, SSH: profile.SSH{User: o.user}}
	if o.node != "" {
		p.Nodes = map[string]profile.Node{o.node: {Host: o.host}}
	}
	if o.offline {
		w.draft = profile.Draft{Profile: p}
		return nil
	}
	q, err := w.question(a, cmd, p)
	if err != nil {
		return err
	}
	cmdutil.Note(a.Stderr, "looking at what was named; nothing is changed there")
	w.found = discover.Inspect(cmd.Context(), q)
	if ca := w.found.Offered(); ca != nil && !o.yes {
		if q.Accept, err = w.askCA(a, cmd, in, ca); err != nil {
			return err
		}
		if q.Accept != "" {
			w.found = discover.Inspect(cmd.Context(), q)
		}
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	w.draft = w.found.Draft(p, w.caFile())
	return nil
}

func (w *written) question(a *cmdutil.App, cmd *cobra.Command, p profile.Profile) (discover.Question, error) {
	o := w.options
	q := discover.Question{API: o.api, Terminal: o.terminal, Accept: o.acceptCA}
	if o.node == "" {
		return q, nil
	}
	node := a.SiteWith(p, "", "", ops.Secrets{}).Host(o.node, o.host)
	q.Node = &node
	if o.token == "" || (o.kind != "" && o.kind != profile.KindGPUaaS) {
		return q, nil
	}
	token, err := profile.ReadSecret(cmd.Context(), o.token)
	q.Token = token
	q.ReadModel = profile.DefaultMapping().Path(profile.PathNode, map[string]string{"node_id": o.node})
	return q, err
}

// askCA shows the CA that was presented, and returns its SHA-256 if the user accepts it.
func (w *written) askCA(a *cmdutil.App, cmd *cobra.Command, in *bufio.Reader, ca *discover.CA) (string, error) {
	cmdutil.Note(a.Stderr, "the API presents a CA that this machine does not trust: %s, until %s, SHA-256 %s", ca.Subject,
		ca.Until.UTC().Format(time.DateOnly), ca.SHA256)
	cmdutil.Note(a.Stderr, "compare it with what its owner says, then type yes to accept it (anything else: not now):")
	answer, err := cmdutil.ReadAnswer(cmd.Context(), in, "nothing was written")
	if err != nil || answer != "yes" {
		return "", err
	}
	return ca.SHA256, nil
}

// write writes the profile, and before it the CA that it names or describes.
func (w *written) write() error {
	text, err := profile.Template(w.base, w.draft)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(w.path), 0o700); err != nil {
		return err
	}
	write := cmdutil.WriteNewFile
	if w.options.force {
		write = cmdutil.ReplaceFile
	}
	if ca := w.found.Presented(); ca != nil {
		file := filepath.Join(filepath.Dir(w.path), w.caFile())
		if err := write(file, ca.PEM); err != nil {
			return fmt.Errorf("write the CA that was presented: %w", err)
		}
	}
	if err := write(w.path, text); err != nil {
		return fmt.Errorf("write the profile: %w", err)
	}
	return nil
}

// next are the one or two commands that lead on: to what has to be accepted first, else to a walk.
func (w *written) next(a *cmdutil.App) []string {
	o := w.options
	var selected []string
	if a.ProfileSource("", false) != w.name {
		selected = []string{"--profile", w.name}
	}
	if ca := w.found.Offered(); ca != nil {
		return []string{w.rerun("--accept-ca", ca.SHA256)}
	}
	if n := w.found.Node; n != nil && n.HostKey != "" {
		trust := append([]string{"gpuaasctl", "ssh", "trust", o.node, "--confirm", o.node}, selected...)
		return []string{diag.Command(trust...), w.rerun()}
	}
	next := []string{"gpuaasctl", "preflight", o.node}
	switch sub, _, err := preflightcmd.New(a).Find(next[2:]); {
	case o.node == "":
		next[2] = "NODE"
	case err != nil || sub.HasParent() || strings.HasSuffix(o.node, ".json"): // a word of preflight's own
		next = append(next[:2], "--node-id", o.node)
	}
	return []string{diag.Command(append(next, selected...)...)}
}

// rerun is the command that looks once more, with what was answered.
func (w *written) rerun(more ...string) string {
	o := w.options
	argv := []string{"gpuaasctl", "profile", "init", w.name, "--force", "--yes"}
	for _, f := range [...]struct{ flag, value string }{
		{"--kind", o.kind}, {"--api-base", o.api}, {"--terminal-base", o.terminal}, {"--token-file", o.token},
		{"--node-id", o.node}, {"--node-host", o.host}, {"--node-user", o.user}, {"--accept-ca", o.acceptCA},
	} {
		if f.value != "" && (f.flag != "--node-host" || f.value != o.node) {
			argv = append(argv, f.flag, f.value)
		}
	}
	return diag.Command(append(argv, more...)...)
}
