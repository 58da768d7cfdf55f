package diag

import (
	"fmt"
	"strconv"
)

// Program is a program that a profile declares, for OpCommand. It is run without a shell, with an environment that does
// not depend on the login, and every process that it leaves is ended.
type Program struct {
	Argv []string `json:"argv"` // the first is an absolute path
	// As is the user whose rights the program has; "": the login's.
	As string `json:"as,omitempty"`
	// LimitMS is how long it may run. TimeoutMS also counts the time for which it waits for other commands.
	LimitMS int64 `json:"limit_ms"`
	Most    int   `json:"most"` // bytes that are kept of each output
}

// Why a command was ended before it ended by itself.
const (
	EndedByLimit = "limit" // its time was up
	EndedByFlood = "flood" // it wrote far more than any check does
	EndedByWalk  = "walk"  // the walk was over, or its connection broke
)

// CommandFacts is one run of a program. Its outputs are as it wrote them, without control characters and secrets.
type CommandFacts struct {
	Program string `json:"program"` // after symbolic links
	SHA256  string `json:"sha256,omitempty"`
	User    string `json:"user,omitempty"`
	UID     int    `json:"uid"`
	Exit    *int   `json:"exit,omitempty"`   // absent if it did not end by itself
	Signal  string `json:"signal,omitempty"` // the signal that ended it
	Ended   string `json:"ended,omitempty"`  // why it was ended: limit, flood or walk
	Out     string `json:"out,omitempty"`
	Err     string `json:"err,omitempty"`
	// what it wrote, in bytes; more than was kept if Cut
	OutBytes int64 `json:"out_bytes"`
	ErrBytes int64 `json:"err_bytes,omitempty"`
	Cut      bool  `json:"cut,omitempty"`
	// Left is how many processes it left behind, which were ended; Unended how many of them did not end.
	Left       int    `json:"left,omitempty"`
	Unended    int    `json:"unended,omitempty"`
	DurationMS Millis `json:"duration_ms,omitempty"`
}

// Words reports how the program ended, and the first of what it wrote.
func (c *CommandFacts) Words() []Line {
	ended := pair("ended by ", c.Signal)
	if c.Exit != nil {
		ended = "exit " + strconv.Itoa(*c.Exit)
	}
	left := ""
	if c.Left > 0 {
		left = fmt.Sprintf("%d processes left behind were ended", c.Left)
	}
	cut := ""
	if c.Cut {
		cut = fmt.Sprintf("%d bytes of output, cut", c.OutBytes+c.ErrBytes)
	}
	return []Line{
		line("command", c.Program, pair("as ", c.User), ended, pair("ended: ", c.Ended), left, cut, took(c.DurationMS)),
		line("  out", c.Out), line("  err", c.Err),
	}
}

// Properties has the digest of the program, where it was taken.
func (c *CommandFacts) Properties(*Fact) []Property {
	return []Property{{ChangeFile, "command.sha256", c.SHA256}}
}

// ProcessFacts are the processes of one name.
type ProcessFacts struct {
	Count   int    `json:"count"`
	PIDs    []int  `json:"pids,omitempty"` // at most MaxProcesses, the lowest first
	OldestS *int64 `json:"oldest_s,omitempty"`
	States  string `json:"states,omitempty"` // a letter for each of PIDs, as in /proc/PID/stat
}

// MaxProcesses is how many processes a ProcessFacts lists.
const MaxProcesses = 16

// Words reports how many there are.
func (p *ProcessFacts) Words() []Line {
	return []Line{line("process", strconv.Itoa(p.Count)+" found", pair("states ", p.States), seconds("up ", p.OldestS))}
}

// Properties has none: processes come and go.
func (p *ProcessFacts) Properties(*Fact) []Property { return nil }

// ContainerFacts is one container, as its runtime reports it.
type ContainerFacts struct {
	Runtime  string `json:"runtime"` // path of the socket that answered
	Name     string `json:"name"`
	Image    string `json:"image,omitempty"`
	State    string `json:"state"` // running, exited, ... as the runtime says
	Health   string `json:"health,omitempty"`
	Exit     *int   `json:"exit,omitempty" bounded:"signed"`
	Restarts int    `json:"restarts,omitempty"`
	PID      int    `json:"pid,omitempty"`
}

// Words reports the state of the container.
func (c *ContainerFacts) Words() []Line {
	exit := ""
	if c.Exit != nil && c.State != "running" {
		exit = "exit " + strconv.Itoa(*c.Exit)
	}
	return []Line{line("container", c.Name, c.State, c.Health, exit, pair("image ", c.Image), pair("restarts ",
		number(c.Restarts)), pair("by ", c.Runtime))}
}

// Properties has the image.
func (c *ContainerFacts) Properties(*Fact) []Property {
	return []Property{{ChangeFile, "container.image", c.Image}}
}
