package judge

import (
	"fmt"
	"reflect"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
)

// typeName returns an object's type in CEL.
func typeName(a policy.About) string { return "gpuaas." + string(a) }

// object is an event, a GPU or the node in a condition.
type object struct {
	about  policy.About
	values policy.Values
}

// provider adds our objects to CEL's types, so that an undefined field is found when a policy is compiled.
type provider struct {
	*types.Registry
	fields map[string]map[string]*types.FieldType // by type and name
	names  map[string][]string
}

func newProvider() (*provider, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	p := &provider{registry, map[string]map[string]*types.FieldType{}, map[string][]string{}}
	of := map[policy.Type]*cel.Type{policy.Int: cel.IntType, policy.Bool: cel.BoolType, policy.Text: cel.StringType}
	for _, f := range policy.Fields() {
		t := typeName(f.About)
		if p.fields[t] == nil {
			p.fields[t] = map[string]*types.FieldType{}
		}
		p.fields[t][f.Name] = &types.FieldType{Type: of[f.Type], IsSet: isSet(f.Name), GetFrom: getFrom(f.About, f.Name)}
		p.names[t] = append(p.names[t], f.Name)
	}
	return p, nil
}

// isSet is has(): false only for a field that the event or the GPU does not have. A field whose value could not be read
// is set, so that using it is an error.
func isSet(name string) ref.FieldTester {
	return func(target any) bool {
		o, ok := target.(*object)
		if !ok {
			return false
		}
		_, there := o.values[name]
		return there
	}
}

func getFrom(about policy.About, name string) ref.FieldGetter {
	return func(target any) (any, error) {
		o, ok := target.(*object)
		if !ok {
			return nil, fmt.Errorf("%s.%s of a %T", about, name, target)
		}
		v, there := o.values[name]
		switch {
		case !there:
			return nil, fmt.Errorf("there is no %s.%s here: ask has(%s.%s) first", about, name, about, name)
		case v.Of == nil:
			return nil, fmt.Errorf("%s.%s %s", about, name, v.Failed)
		}
		return v.Of, nil
	}
}

// FindStructType finds our types and CEL's.
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if _, ours := p.fields[name]; ours {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Registry.FindStructType(name)
}

// FindStructFieldNames lists a type's fields.
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if names, ours := p.names[name]; ours {
		return names, true
	}
	return p.Registry.FindStructFieldNames(name)
}

// FindStructFieldType finds a field.
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if fields, ours := p.fields[name]; ours {
		f, ok := fields[field]
		return f, ok
	}
	return p.Registry.FindStructFieldType(name, field)
}

// NewValue refuses to construct our objects.
func (p *provider) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if _, ours := p.fields[name]; ours {
		return types.NewErr("a condition makes no %s", name)
	}
	return p.Registry.NewValue(name, fields)
}

// The methods of a CEL value. An object equals only itself, and cannot be converted.

func (o *object) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("the %s is not a %s", o.about, t)
}

func (o *object) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return types.NewObjectType(typeName(o.about))
	}
	return types.NewErr("the %s is not a %s", o.about, t.TypeName())
}

func (o *object) Equal(other ref.Val) ref.Val { return types.Bool(ref.Val(o) == other) }
func (o *object) Type() ref.Type              { return types.NewObjectType(typeName(o.about)) }
func (o *object) Value() any                  { return o }
