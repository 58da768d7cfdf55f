// Package judge compiles policies and judges evidence with them. It links CEL; only gpuaas-gpu-policy imports it.
//
// It is pure: the same policy and evidence give the same judgement. It reads no clock, file or network.
package judge

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// Limits of a condition. Without loops, its cost is bounded by its length and by the texts that it reads.
const (
	maxDepth = 40    // nesting of brackets, calls and operators
	maxCost  = 1_000 // in CEL's units, estimated in advance and limited during evaluation
	maxTotal = 5_000 // of all rules of a policy: a thousand events are judged within a second or two
	maxRegex = 1_000 // instructions of a regular expression
	longText = 512   // bytes of the longest text of an event
)

// Program is a compiled policy.
type Program struct {
	policy policy.Policy
	rules  []rule
}

// rule is a compiled rule.
type rule struct {
	policy.Rule
	cost  uint64         // estimated
	about []policy.About // one of these: what the condition names; none: everything
	eval  cel.Program
}

// Compile compiles a policy. Its error has a line "FILE:LINE: MISTAKE" for each mistake.
func Compile(p policy.Policy) (*Program, error) {
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("prepare CEL: %w", err)
	}
	prog := &Program{policy: p}
	var found []error
	total := uint64(0)
	for i, r := range p.Rules {
		compiled, mistakes := compile(env, r)
		if total += compiled.cost; total > maxTotal && total-compiled.cost <= maxTotal && len(mistakes) == 0 {
			mistakes = []mistake{{r.CondLine, fmt.Sprintf("with the rules before it may cost more than %d units of CEL",
				maxTotal)}}
		}
		for _, m := range mistakes {
			found = append(found, &strictyaml.Error{
				Path: p.Name, Line: m.line, Message: fmt.Sprintf("rules[%d].condition: %s", i, m.text),
			})
		}
		prog.rules = append(prog.rules, compiled)
	}
	if len(found) > 0 {
		return nil, errors.Join(found...)
	}
	return prog, nil
}

// environment returns what a condition may use: three objects and CEL's operators and functions, without macros that
// loop.
func environment() (*cel.Env, error) {
	p, err := newProvider()
	if err != nil {
		return nil, err
	}
	return cel.NewEnv(
		cel.CustomTypeProvider(p), cel.CustomTypeAdapter(p),
		cel.Variable(string(policy.AboutEvent), cel.ObjectType(typeName(policy.AboutEvent))),
		cel.Variable(string(policy.AboutGPU), cel.ObjectType(typeName(policy.AboutGPU))),
		cel.Variable(string(policy.AboutNode), cel.ObjectType(typeName(policy.AboutNode))),
		cel.ClearMacros(), cel.Macros(cel.HasMacro),
		cel.ParserExpressionSizeLimit(policy.MaxCondition), cel.ParserRecursionLimit(maxDepth),
		cel.ParserErrorRecoveryLimit(4), cel.RegexProgramSizeLimit(maxRegex),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateHomogeneousAggregateLiterals(),
			cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	)
}

// mistake returns an error with a line of the file.
type mistake struct {
	line int
	text string
}

func compile(env *cel.Env, r policy.Rule) (rule, []mistake) {
	c := rule{Rule: r}
	checked, issues := env.Compile(r.Condition)
	if issues.Err() != nil {
		var found []mistake
		for _, e := range issues.Errors() {
			line := r.CondLine + max(e.Location.Line()-1, 0)
			text := strings.TrimPrefix(strings.Split(e.Message, "\n")[0], "Syntax error: ")
			found = append(found, mistake{line, fmt.Sprintf("%s%s (column %d of %q)", text, nearField(text),
				e.Location.Column()+1, around(r.Condition, e.Location.Line()))})
		}
		return c, found
	}
	var found []mistake
	bad := func(format string, args ...any) {
		found = append(found, mistake{r.CondLine, fmt.Sprintf(format, args...)})
	}
	if t := checked.OutputType(); !t.IsExactType(cel.BoolType) {
		bad("is %s, and must be true or false (bool)", t)
	}
	c.about = objects(checked)
	if len(c.about) > 1 {
		bad("asks for an event and a GPU; an event has event.index, event.uuid and event.pci of its GPU")
	}
	for _, text := range wrongWords(checked) {
		bad("%s", text)
	}
	if len(found) > 0 {
		return c, found
	}
	estimate, err := env.EstimateCost(checked, sizes{})
	c.cost = estimate.Max
	switch {
	case err != nil:
		bad("what it costs cannot be estimated: %v", err)
	case estimate.Max > maxCost:
		bad("may cost %d units of CEL; at most %d", estimate.Max, maxCost)
	}
	prog, err := env.Program(checked, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		bad("%v", err)
	}
	c.eval = prog
	return c, found
}

// nearField suggests a field for an undefined one.
func nearField(text string) string {
	name, ok := strings.CutPrefix(text, "undefined field '")
	if !ok {
		return ""
	}
	var known []string
	for _, f := range policy.Fields() {
		known = append(known, f.Name)
	}
	return strictyaml.Nearest(strings.TrimSuffix(name, "'"), known)
}

// around returns a line of a condition, shortened for a message.
func around(condition string, line int) string {
	lines := strings.Split(condition, "\n")
	text := strings.TrimSpace(lines[min(max(line-1, 0), len(lines)-1)])
	if len(text) > 60 {
		text = text[:60] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}

// objects returns which of event and GPU a condition names.
func objects(checked *cel.Ast) (named []policy.About) {
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.IdentKind {
			return
		}
		switch a := policy.About(e.AsIdent()); a {
		case policy.AboutEvent, policy.AboutGPU:
			if !slices.Contains(named, a) {
				named = append(named, a)
			}
		}
	}))
	if len(named) == 0 {
		ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
			if e.Kind() == ast.IdentKind && e.AsIdent() == string(policy.AboutNode) {
				named = []policy.About{policy.AboutNode}
			}
		}))
	}
	return named
}

// wrongWords finds comparisons of a field with a value that it never has, and conditions that construct an object.
func wrongWords(checked *cel.Ast) (found []string) {
	words := map[string][]string{}
	for _, f := range policy.Fields() {
		if f.Words != nil {
			words[string(f.About)+"."+f.Name] = f.Words
		}
	}
	compare := func(field, with ast.Expr) {
		if field.Kind() != ast.SelectKind || field.AsSelect().IsTestOnly() || with.Kind() != ast.LiteralKind {
			return
		}
		s := field.AsSelect()
		if s.Operand().Kind() != ast.IdentKind {
			return
		}
		name := s.Operand().AsIdent() + "." + s.FieldName()
		word, isText := with.AsLiteral().Value().(string)
		if known, has := words[name]; has && isText && !slices.Contains(known, word) {
			found = append(found, fmt.Sprintf("%s is never %q%s", name, word, strictyaml.Nearest(word, known)))
		}
	}
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.StructKind {
			found = append(found, "makes an object")
		}
		if e.Kind() != ast.CallKind {
			return
		}
		args := e.AsCall().Args()
		switch e.AsCall().FunctionName() {
		case operators.Equals, operators.NotEquals:
			compare(args[0], args[1])
			compare(args[1], args[0])
		case operators.In:
			if args[1].Kind() == ast.ListKind {
				for _, word := range args[1].AsList().Elements() {
					compare(args[0], word)
				}
			}
		}
	}))
	return found
}

// sizes bounds the sizes of the texts that a condition reads.
type sizes struct{}

// EstimateCallCost leaves calls to CEL's own table.
func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// EstimateSize returns the size of a field; other sizes follow from the expression.
func (sizes) EstimateSize(n cost.AstNode) *cost.SizeEstimate {
	if len(n.Path()) == 2 { // an object and its field
		return &cost.SizeEstimate{Min: 0, Max: longText}
	}
	return nil
}
