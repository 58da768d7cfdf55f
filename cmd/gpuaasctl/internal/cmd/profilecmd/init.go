package profilecmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmd/preflightcmd"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/profile"
)

// initOptions are the options of `profile init`.
type initOptions struct {
	api, terminal, token, node, host, user string

	yes, force bool
}

// profileName matches file names that --profile and --compare accept unquoted, in every shell.
var profileName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
})

// question is one question: the flag that answers it, and the check of an answer.
type question struct {
	flag, ask string
	value     *string
	check     func(context.Context) error
}

func newProfileInit(a *cmdutil.App) *cobra.Command {
	o := &initOptions{}
	cmd := &cobra.Command{
		Use:   "init NAME",
		Short: "Write a profile: asks five questions, or takes the answers by flags",
		Long: `Writes the profile NAME, or the file of that path, with a comment for every part. It asks for the API, the terminal
gateway, the file of the operator's token, a node and its address, except for values given by flags; with --yes it asks
nothing. An empty answer leaves a part out, except for the API; Ctrl-C ends it without writing. It connects to nothing.

It never takes the token, only the path of its file. An existing file is replaced only with --force.

Exit codes: 0 written, 2 an answer or the command line is wrong, and nothing was written.`,
		Example: `  gpuaasctl profile init demo
  gpuaasctl profile init demo --yes --api-base https://api.example --token-file ~/.config/gpuaasctl/token \
      --node-id compute-node-01 --node-host 10.0.0.5 --node-user ubuntu`,
		Args: cmdutil.Args(1, 1),
		RunE: cmdutil.Run(a, o, initProfile),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.api, "api-base", "", "`URL` of the control plane API")
	f.StringVar(&o.terminal, "terminal-base", "", "`URL` of the browser-facing terminal gateway")
	f.StringVar(&o.token, "token-file", "", "`FILE` with the operator's API token, private to its owner")
	f.StringVar(&o.node, "node-id", "", "a `NODE`, by its platform id")
	f.StringVar(&o.host, "node-host", "", "where it is reached by SSH: `HOST` name or address")
	f.StringVar(&o.user, "node-user", "", "login `NAME` on nodes")
	f.BoolVarP(&o.yes, "yes", "y", false, "ask nothing; values without a flag are left out")
	f.BoolVar(&o.force, "force", false, "replace a file that is there")
	return cmd
}

// questions are asked in this order.
func (o *initOptions) questions() []question {
	value := func(key, flag string, v *string) func(context.Context) error {
		return func(context.Context) error {
			_, _, err := profile.Load("", profile.Sources{Flags: map[string]profile.Flag{key: {Name: "--" + flag, Value: *v}}})
			return err
		}
	}
	node := func(context.Context) error { return cmdutil.CheckIDs(ops.Target{Node: o.node}) }
	host := func(context.Context) error { return cmdutil.CheckIDs(ops.Target{Node: o.node, Host: o.host}) }
	return []question{
		{"api-base",
			"URL of the control plane's API, such as https://api.example (needed; Ctrl-C ends, and nothing is written)", &o.api,
			value("api_base", "api-base", &o.api)},
		{"terminal-base", "URL of the terminal gateway, as browsers reach it (empty: left out)", &o.terminal,
			value("terminal_base", "terminal-base", &o.terminal)},
		{"token-file", "path of the file with the operator's API token (never the token itself; empty: left out)", &o.token,
			o.checkToken},
		{"node-id", "a node, by the id that the platform gives it (empty: left out)", &o.node, node},
		{"node-host", "where that node is reached by SSH: a name or an address (empty: the node is left out)", &o.host, host},
	}
}

// checkToken accepts the path of a file with a secret, and makes it absolute. It only repeats the input in an error if
// it is such a path: the input may be the token itself.
func (o *initOptions) checkToken(ctx context.Context) error {
	path := o.token
	if rest, home := strings.CutPrefix(path, "~/"); home {
		path = filepath.Join(os.Getenv("HOME"), rest)
	}
	if _, err := os.Stat(path); err != nil {
		return errors.New("--token-file: there is no such file; give the path of one that holds the token " +
			"(what was given is not shown, since it may be the token itself)")
	}
	if _, err := profile.ReadSecret(ctx, path); err != nil {
		return fmt.Errorf("--token-file: %w", err)
	}
	var err error
	if path == o.token {
		o.token, err = filepath.Abs(path)
	}
	return err
}

// initProfile asks, checks and writes.
func initProfile(a *cmdutil.App, cmd *cobra.Command, o *initOptions, args []string) error {
	name := args[0]
	refuse := func(err error) error { return &cmdutil.UsageError{Err: err, Command: cmd.CommandPath()} }
	path := profile.Path(name, profile.Dir(a.Env))
	switch _, err := os.Lstat(path); {
	case !profileName().MatchString(filepath.Base(path)):
		return refuse(fmt.Errorf("NAME: %q cannot be one: want letters, digits, dots, dashes and underscores, a letter or "+
			"digit first", name))
	case err == nil && !o.force:
		return refuse(fmt.Errorf("%s exists, and is replaced only with --force", path))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return refuse(err)
	case !o.yes && !cmdutil.IsTerminal(a.Stdin):
		return refuse(errors.New("stdin is not a terminal: give --yes, and the answers by flags"))
	}
	if err := o.answer(a, cmd); err != nil {
		return err
	}
	p := profile.Profile{APIBase: o.api, TerminalBase: o.terminal, Auth: profile.Auth{TokenFile: o.token},
		SSH: profile.SSH{User: o.user}}
	if o.node != "" {
		p.Nodes = map[string]profile.Node{o.node: {Host: o.host}}
	}
	text, err := profile.Template(strings.TrimSuffix(filepath.Base(path), ".yaml"), p)
	if err != nil {
		return refuse(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return refuse(err)
	}
	write := cmdutil.WriteNewFile
	if o.force {
		write = cmdutil.ReplaceFile
	}
	if err := write(path, text); err != nil {
		return refuse(fmt.Errorf("write the profile: %w", err))
	}
	next := []string{"gpuaasctl", "preflight", o.node}
	switch sub, _, err := preflightcmd.New(a).Find(next[2:]); {
	case o.node == "":
		next[2] = "NODE"
	case err != nil || sub.HasParent() || strings.HasSuffix(o.node, ".json"): // a word of preflight's own
		next = append(next[:2], "--node-id", o.node)
	}
	if a.ProfileSource("", false) != name {
		next = append(next, "--profile", name)
	}
	a.Note("next: %s", diag.Command(next...))
	return a.Write([]byte(path + ": written\n"))
}

// answer takes the answers from flags, and asks for the others.
func (o *initOptions) answer(a *cmdutil.App, cmd *cobra.Command) error {
	stdin, end := cmdutil.InterruptibleReader(cmd.Context(), a.Stdin)
	defer end()
	in := bufio.NewReader(io.LimitReader(stdin, 64<<10))
	for i, q := range o.questions() {
		given := cmd.Flags().Changed(q.flag)
		for {
			if !given && !o.yes {
				cmdutil.Note(a.Stderr, "%d of 5: %s:", i+1, q.ask)
				answer, err := cmdutil.ReadAnswer(cmd.Context(), in, "nothing was written")
				if err != nil {
					return err
				}
				*q.value = answer
			}
			err := error(nil)
			switch {
			case *q.value != "":
				err = q.check(cmd.Context())
			case q.flag == "api-base":
				err = errors.New("--api-base: the URL of the API is missing")
			case q.flag == "node-host" && o.node != "" && !given && !o.yes:
				cmdutil.Note(a.Stderr, "the node %s is left out", o.node)
				o.node = ""
			case q.flag == "node-host" && o.node != "":
				err = errors.New("--node-host: where " + o.node + " is reached is missing")
			}
			if err == nil {
				break
			}
			if given || o.yes {
				return &cmdutil.UsageError{Err: err, Command: cmd.CommandPath()}
			}
			cmdutil.Note(a.Stderr, "%v", err)
			if q.flag != "api-base" {
				cmdutil.Note(a.Stderr, "again, or an empty line to leave it out")
			}
		}
		if q.flag == "node-id" && o.node == "" {
			if cmd.Flags().Changed("node-host") {
				return cmdutil.Usagef("--node-host needs --node-id, the node at that address")
			}
			break // nothing is to be reached
		}
	}
	return nil
}
