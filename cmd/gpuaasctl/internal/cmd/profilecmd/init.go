package profilecmd

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/profile"
)

// initOptions are the options of `profile init`.
type initOptions struct {
	kind, api, terminal, token, node, host, user string
	acceptCA                                     string

	yes, force, offline bool
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
		Short: "Write a profile: asks five questions, looks at what they name, and writes what it found",
		Long: `Writes the profile NAME, or the file of that path, with a comment for every part. It asks for the API, the terminal
gateway, the file of the operator's token, a node and its address, except for values given by flags; with --yes it asks
nothing. An empty answer leaves a part out; an API or a node is needed. Ctrl-C ends it without writing.

Then it looks at what was named, and the profile says what it found: who signed the API's certificate, which of the
usual health pages answers, whether a login reaches the node and may become root, which agent runs there, and, with a
token, whether the API describes the node. With --offline it connects to nothing. It trusts nothing by itself: a CA
that the API presents is written to NAME-ca.pem, and is used only after a "yes", or with its SHA-256 in --accept-ca; a
host key is accepted by "gpuaasctl ssh trust". Before that, nothing is asked over that connection.

It never takes the token, only the path of its file. An existing file is replaced only with --force.

Exit codes: 0 written, 2 an answer or the command line is wrong, and nothing was written.`,
		Example: `  gpuaasctl profile init demo
  gpuaasctl profile init plain --yes --node-host gpu-17
  gpuaasctl profile init demo --yes --api-base https://api.example --token-file ~/.config/gpuaasctl/token \
      --node-id compute-node-01 --node-host 10.0.0.5 --node-user ubuntu`,
		Args: cmdutil.Args(1, 1),
		RunE: cmdutil.Run(a, o, initProfile),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.kind, "kind", "", "`KIND` of platform (default: what is found): "+strings.Join(profile.Kinds(), ", "))
	f.StringVar(&o.api, "api-base", "", "`URL` of the control plane API")
	f.StringVar(&o.terminal, "terminal-base", "", "`URL` of the browser-facing terminal gateway")
	f.StringVar(&o.token, "token-file", "", "`FILE` with the operator's API token, private to its owner")
	f.StringVar(&o.node, "node-id", "", "a `NODE`, by its platform id (default: --node-host)")
	f.StringVar(&o.host, "node-host", "", "where it is reached by SSH: `HOST` name or address (default: --node-id)")
	f.StringVar(&o.user, "node-user", "", "login `NAME` on nodes")
	f.StringVar(&o.acceptCA, "accept-ca", "", "accept the CA that the API presents, if its `SHA256` is this one")
	f.BoolVar(&o.offline, "offline", false, "connect to nothing")
	f.BoolVarP(&o.yes, "yes", "y", false, "ask nothing; values without a flag are left out")
	f.BoolVar(&o.force, "force", false, "replace a file that is there")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(profile.Kinds(), cobra.ShellCompDirectiveNoFileComp))
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
		{"api-base", "URL of the control plane's API, such as https://api.example (empty: there is none)", &o.api,
			value("api_base", "api-base", &o.api)},
		{"terminal-base", "URL of the terminal gateway, as browsers reach it (empty: left out)", &o.terminal,
			value("terminal_base", "terminal-base", &o.terminal)},
		{"token-file", "path of the file with the operator's API token (never the token itself; empty: left out)", &o.token,
			o.checkToken},
		{"node-id", "a node, by the id that the platform gives it, or as ssh takes it (empty: left out)", &o.node, node},
		{"node-host", "where that node is reached by SSH: a name or an address (empty: the same)", &o.host, host},
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

// initProfile asks, looks, and writes.
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
	if err := o.checkFlags(); err != nil {
		return refuse(err)
	}
	stdin, end := cmdutil.InterruptibleReader(cmd.Context(), a.Stdin)
	defer end()
	in := bufio.NewReader(io.LimitReader(stdin, 64<<10))
	if err := o.answer(a, cmd, in); err != nil {
		return err
	}
	w := &written{options: o, name: name, path: path, base: strings.TrimSuffix(filepath.Base(path), ".yaml")}
	if err := w.inspect(a, cmd, in); err != nil {
		return err
	}
	if err := w.write(); err != nil {
		return refuse(err)
	}
	for i, command := range w.next(a) {
		a.Note("%s: %s", [...]string{"next", "then"}[i], command)
	}
	return a.Write([]byte(path + ": written\n"))
}

// checkFlags checks the flags that answer no question.
func (o *initOptions) checkFlags() error {
	if o.kind != "" && !slices.Contains(profile.Kinds(), o.kind) {
		return fmt.Errorf("--kind: there is no kind %q: want %s", o.kind, strings.Join(profile.Kinds(), ", "))
	}
	o.acceptCA = strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(o.acceptCA, "SHA256:"), ":", ""))
	if sum, err := hex.DecodeString(o.acceptCA); o.acceptCA != "" && (err != nil || len(sum) != sha256.Size) {
		return errors.New("--accept-ca: want the SHA-256 of a certificate, 64 hex digits")
	}
	return nil
}

// answer takes the answers from flags, and asks for the others.
func (o *initOptions) answer(a *cmdutil.App, cmd *cobra.Command, in *bufio.Reader) error {
	for i, q := range o.questions() {
		given := cmd.Flags().Changed(q.flag)
		for {
			if !given && !o.yes && (q.flag != "node-host" || o.node != "") {
				cmdutil.Note(a.Stderr, "%d of 5: %s:", i+1, q.ask)
				answer, err := cmdutil.ReadAnswer(cmd.Context(), in, "nothing was written")
				if err != nil {
					return err
				}
				*q.value = answer
			}
			err := error(nil)
			if *q.value != "" {
				err = q.check(cmd.Context())
			}
			if err == nil {
				break
			}
			if given || o.yes {
				return &cmdutil.UsageError{Err: err, Command: cmd.CommandPath()}
			}
			cmdutil.Note(a.Stderr, "%v", err)
			cmdutil.Note(a.Stderr, "again, or an empty line to leave it out")
		}
	}
	o.node, o.host = cmp.Or(o.node, o.host), cmp.Or(o.host, o.node)
	if o.api == "" && o.node == "" {
		return &cmdutil.UsageError{Err: errors.New("neither an API nor a node was named: --api-base, --node-host"),
			Command: cmd.CommandPath()}
	}
	return nil
}
