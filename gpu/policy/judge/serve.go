package judge

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// Serve answers the requests on in, one per line, until in ends. It returns only errors of the streams: an invalid
// request gets a reply with the error.
func Serve(in io.Reader, out io.Writer, version string) error {
	r := bufio.NewReaderSize(io.LimitReader(in, 1<<40), 64<<10)
	enc := json.NewEncoder(out)
	for {
		line, err := readLine(r)
		if len(line) > 0 {
			if err := enc.Encode(answer(line, version)); err != nil {
				return fmt.Errorf("write a reply: %w", err)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read a request: %w", err)
		}
	}
}

// readLine reads a line of bounded length, without its end.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > policy.MaxRequest:
			return nil, fmt.Errorf("it is longer than %d bytes", policy.MaxRequest)
		case err == nil:
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

func answer(line []byte, version string) policy.Reply {
	r := policy.Reply{Schema: policy.Schema, Version: version}
	var q policy.Request
	err := json.Unmarshal(line, &q)
	switch {
	case err != nil:
		err = fmt.Errorf("decode the request: %w", err)
	case q.Schema != policy.Schema:
		err = fmt.Errorf("the request has schema %d, want %d", q.Schema, policy.Schema)
	default:
		err = carryOut(&q, &r)
	}
	if err == nil {
		return r
	}
	r = policy.Reply{Schema: policy.Schema, Version: version, Mistakes: mistakes(err)}
	if len(r.Mistakes) == 0 {
		r.Error = err.Error()
	}
	return r
}

// mistakes returns the mistakes of a file in err; none for another error.
func mistakes(err error) (found []policy.Mistake) {
	var one *strictyaml.Error
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range many.Unwrap() {
			found = append(found, mistakes(err)...)
		}
	} else if errors.As(err, &one) {
		found = append(found, policy.Mistake{Path: one.Path, Line: one.Line, Text: one.Message})
	}
	return found
}

func carryOut(q *policy.Request, r *policy.Reply) error {
	if q.Op == policy.OpShow {
		return show(q, r)
	}
	prog, err := program(q.Policy)
	if err != nil {
		return err
	}
	r.Policy = &prog.policy
	switch q.Op {
	case policy.OpCheck:
		return nil
	case policy.OpTest:
		cases, err := casesOf(q)
		if err != nil {
			return err
		}
		for _, c := range cases.Cases {
			r.Tested = append(r.Tested, prog.test(c))
		}
		return nil
	case policy.OpJudge:
		return judge(q, prog, r)
	}
	return fmt.Errorf("unknown operation %q", q.Op)
}

// show returns the text of a built-in file.
func show(q *policy.Request, r *policy.Reply) error {
	file := policy.BuiltinText
	if q.Case != "" {
		file = policy.BuiltinCases
	}
	var ok bool
	if r.Text, ok = file(q.Policy.Path); !ok {
		return fmt.Errorf("there is no built-in policy %q", q.Policy.Path)
	}
	return nil
}

// program compiles a file, or a built-in policy.
func program(f policy.File) (*Program, error) {
	text := f.Text
	if text == nil {
		var ok bool
		if text, ok = policy.BuiltinText(f.Path); !ok {
			return nil, fmt.Errorf("there is no built-in policy %q", f.Path)
		}
	}
	p, err := policy.Load(f.Path, text)
	if err != nil {
		return nil, err
	}
	return Compile(p)
}

func casesOf(q *policy.Request) (policy.Cases, error) {
	if q.Cases != nil {
		return policy.LoadCases(q.Cases.Path, q.Cases.Text)
	}
	text, ok := policy.BuiltinCases(q.Policy.Path)
	if !ok || q.Policy.Text != nil {
		return policy.Cases{}, fmt.Errorf("the policy %s has no built-in cases", q.Policy.Path)
	}
	return policy.LoadCases(q.Policy.Path, text)
}

func (p *Program) test(c policy.Case) policy.Tested {
	j := p.Judge(c.Evidence, policy.Enforce, false)
	t := policy.Tested{Case: c.Name, Line: c.Line, Want: c.Health, WantRule: c.Rule, Got: j.Health}
	if j.Decided != nil {
		t.GotRule, t.Why = j.Decided.Rule, j.Decided.Subject.What+": "+j.Decided.Why
	}
	t.OK = t.Got == t.Want && (t.WantRule == "" || t.WantRule == t.GotRule)
	return t
}

func judge(q *policy.Request, prog *Program, r *policy.Reply) error {
	e, err := evidence(q)
	if err != nil {
		return err
	}
	r.Judgement = new(prog.Judge(e, policy.Enforce, true))
	if q.Shadow != nil {
		other, err := program(*q.Shadow)
		if err != nil {
			return err
		}
		r.Shadow = new(other.Judge(e, policy.Shadow, true))
	}
	return nil
}

func evidence(q *policy.Request) (e policy.Evidence, err error) {
	if q.Case != "" {
		cases, err := casesOf(q)
		if err != nil {
			return e, err
		}
		i := slices.IndexFunc(cases.Cases, func(c policy.Case) bool { return c.Name == q.Case })
		if i < 0 {
			return e, fmt.Errorf("%s has no case %q", cases.Path, q.Case)
		}
		return cases.Cases[i].Evidence, nil
	}
	if q.Sample != nil {
		if e.Sample, err = policy.LoadSample(q.Sample.Path, q.Sample.Text); err != nil {
			return e, err
		}
	}
	if q.Events != nil {
		if e.Events, err = policy.LoadEvents(q.Events.Path, q.Events.Text); err != nil {
			return e, err
		}
	}
	e.Expected = q.Expected
	if q.Now != nil {
		e.Now = *q.Now
	}
	return e, nil
}
