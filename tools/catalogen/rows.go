package main

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// The rows of the catalogue, as in its files. A field without omitempty is required. The tag "of" names the Go type
// whose constants are the allowed words of a field; see words.

// named is a row with a wire name, which never changes, and the name of its Go constant.
type named struct {
	ID    string `yaml:"id"`
	Const string `yaml:"go"`
	Note  string `yaml:"note,omitempty"` // the constant's comment
}

type hop struct {
	named
	Title       string   `yaml:"title"`
	Layer       string   `yaml:"layer" of:"Layer"`
	Allocation  bool     `yaml:"allocation,omitempty"`
	Optional    bool     `yaml:"optional,omitempty"`
	Tenants     string   `yaml:"tenants_see_it,omitempty"`
	EndsSession bool     `yaml:"ends_session,omitempty"`
	About       string   `yaml:"about"`
	Signals     []string `yaml:"signals,omitempty" of:"Signal"`

	Steps []meaning `yaml:"steps,omitempty"`
}

type reason struct {
	named
	Title       text     `yaml:"title"`
	Owners      []string `yaml:"owners" of:"owner"`
	Layer       string   `yaml:"layer" of:"Layer"`
	Severity    string   `yaml:"severity,omitempty" of:"Severity"`
	Detect      span     `yaml:"detect,omitempty"`
	Repair      span     `yaml:"repair,omitempty"`
	State       string   `yaml:"user_state" of:"UserState"`
	UserText    text     `yaml:"user_text,omitempty"`
	Unrecovered text     `yaml:"user_text_unrecovered,omitempty"`
	Actions     []string `yaml:"user_actions,omitempty" of:"UserAction"`
	Next        text     `yaml:"next_action"`
	With        []string `yaml:"with,omitempty" of:"HopID"`
	Hides       []string `yaml:"hides,omitempty" of:"ReasonCode"`

	NeverReenroll bool `yaml:"never_reenroll,omitempty"`
}

func (r *reason) check() error {
	switch {
	case r.State == "recovering" && r.UserText != nil && r.Unrecovered == nil:
		return errors.New(`lacks "user_text_unrecovered": what users are shown where it does not recover`)
	case (r.Severity == "") != (r.Detect == 0):
		return errors.New("a severity and a time to detect go together")
	}
	return nil
}

type failure struct {
	named
	Words  string `yaml:"words"`
	Causes string `yaml:"causes"`
}

type scenario struct {
	ID       string   `yaml:"id"`
	Title    string   `yaml:"title"`
	Reasons  []string `yaml:"reasons" of:"ReasonCode"`
	Severity string   `yaml:"severity" of:"Severity"`
	Detect   span     `yaml:"detect"`
	Repair   span     `yaml:"repair,omitempty"`
	Deciders []string `yaml:"deciders"`
	Next     text     `yaml:"next_action"`
}

type lack struct {
	named
	Owners []string      `yaml:"owners" of:"owner"`
	Steps  []instruction `yaml:"steps"`
}

type signal struct {
	named
	Title  string      `yaml:"title"`
	Owners []string    `yaml:"owners" of:"owner"`
	BySide []sideOwner `yaml:"owners_by_side,omitempty"`
	Reason string      `yaml:"reason" of:"ReasonCode"`
	Status string      `yaml:"agent_status,omitempty" of:"Agent..."`
	Fails  []string    `yaml:"failures,omitempty"` // ids of failures, or what they begin with
	Steps  []step      `yaml:"steps"`
	Proof  []string    `yaml:"proof" of:"HopID"`
}

// sideOwner is whom to call if a fault is known to be on one side.
type sideOwner struct {
	Side   string   `yaml:"side" of:"Side"`
	Owners []string `yaml:"owners" of:"owner"`
}

// exit is an exit code.
type exit struct {
	Code  int    `yaml:"code"`
	Const string `yaml:"go"`
	Means string `yaml:"means"`
}

// claim is something that a drill shows.
type claim struct {
	named
	Title string   `yaml:"title"`
	Held  string   `yaml:"held_when"`
	Else  []string `yaml:"else" of:"Word"`
}

// instruction is the content of one step of a repair. The text may place its commands, {1} for the first; otherwise
// they follow it.
type instruction struct {
	Text     string   `yaml:"text"`
	Command  string   `yaml:"command,omitempty"`
	Commands []string `yaml:"commands,omitempty"`
}

// remedy is a step used by several rows or tables.
type remedy struct {
	Const string `yaml:"go,omitempty"`
	Says  string `yaml:"says,omitempty"`
	instruction
}

func (r *remedy) check() error {
	if (r.Const == "") == (r.Says == "") {
		return errors.New("want go or says, one of them")
	}
	return r.instruction.check()
}

// step is an instruction, and the reports to which it applies.
type step struct {
	instruction
	Needs   []string `yaml:"needs,omitempty" of:"Reliance"`
	Without string   `yaml:"without,omitempty" of:"Reliance"`
	Tries   string   `yaml:"tries,omitempty" of:"Reliance"`
	About   []string `yaml:"about,omitempty" of:"Aspect"`
	Failure string   `yaml:"failure,omitempty" of:"Failure"`
	Side    string   `yaml:"side,omitempty" of:"Side"`
	Network string   `yaml:"network,omitempty" of:"Network"`
	Guess   bool     `yaml:"guess,omitempty"`
	Only    []string `yaml:"only,omitempty"`
	Except  []string `yaml:"except,omitempty"`
}

// cause is a cause of broken trust.
type cause struct {
	named
	Moved  string   `yaml:"moved"`
	Signal string   `yaml:"signal" of:"Signal"`
	Steps  []repair `yaml:"steps"`
}

// repair is an instruction for a cause, and where to follow it.
type repair struct {
	instruction
	Where     string `yaml:"where" of:"at..."`
	Reenrolls bool   `yaml:"reenrolls,omitempty"`
	Waits     bool   `yaml:"waits,omitempty"`
}

// check requires that commands are not in the text, and that every command has one place.
func (s *instruction) check() error {
	places := 0
	for i := range s.commands() {
		if strings.Contains(s.Text, "{"+strconv.Itoa(i+1)+"}") {
			places++
		}
	}
	switch {
	case strings.Contains(s.Text, "`"):
		return errors.New("a command in backticks is in the text: give it as command")
	case len(slotted.FindAllString(s.Text, -1)) != places, places != 0 && places != len(s.commands()):
		return errors.New("the text has places for other commands than those that it has")
	case s.Command != "" && len(s.Commands) > 0:
		return errors.New("command and commands are both given")
	}
	return nil
}

// slotted matches the places of commands in a text.
var slotted = regexp.MustCompile(`\{[0-9]+\}`)

func (s instruction) commands() []string {
	if s.Command != "" {
		return append([]string{s.Command}, s.Commands...)
	}
	return s.Commands
}
