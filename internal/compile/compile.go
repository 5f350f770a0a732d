package compile

import (
	"k8s.io/apimachinery/pkg/util/validation"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// Object is one object to compile.
type Object struct {
	Value map[string]any
	// Pos returns the position of a field path; nil if the object does not come from a file.
	Pos func(path string) diag.Position
}

// One compiles one policy with the families of Ephor (see Registry.One).
func One(o Object) (*policy.Program, diag.List) { return Product.One(o) }

// With compiles one policy with the families of Ephor (Registry.With).
func With(o Object, companions []any, options family.Options) (*policy.Program, diag.List) {
	return Product.With(o, companions, options)
}

// Written compiles a policy under review, with the families of Ephor (Registry.Written).
func Written(o Object, permitted family.Permissions) (*policy.Program, diag.List) {
	return Product.Written(o, permitted)
}

// One compiles one policy that has no companions.
func (r *Registry) One(o Object) (*policy.Program, diag.List) {
	return r.With(o, nil, family.Options{})
}

// With compiles one policy, with the contents of its companions (Companions.Of). The Program is nil if the object belongs to no family,
// which the diagnostics report. Otherwise the diagnostics are Program.Diags, with positions.
func (r *Registry) With(o Object, companions []any, options family.Options) (*policy.Program, diag.List) {
	f := r.FamilyOf(typeOf(o))
	if f == nil {
		return nil, notAPolicy(o)
	}
	var program *policy.Program
	if isLarge(o) {
		program = tooLarge(f, o.Value)
	} else {
		options.Allowance = options.Within()
		before := options.Allowance.Held()
		program = f.Compile(family.Source{Object: o.Value, Companions: companions, Options: options})
		program.Held = options.Allowance.Held() - before
		if program.Diags.HasErrors() {
			if one := unrendered(o); one != nil {
				program.Diags = one
			}
		}
	}
	program.Family, program.Server = f.Name, options.Server
	if k := f.Kinds.Owner(typeOf(o)); k != nil {
		written := program.Names.Policy
		program.Names = k.Names()
		program.Names.Policy = written
	}
	locate(program.Diags, o)
	return program, program.Diags
}

// Written compiles a policy under review, like One. Its diagnostics include mistakes that prevent a policy from being written, although a
// stored policy with them is evaluated (family.Family.Review).
func (r *Registry) Written(o Object, permitted family.Permissions) (*policy.Program, diag.List) {
	program, diags := r.With(o, nil, family.Options{CommandLine: permitted.Documents, Server: permitted.Server})
	return program, append(r.Review(o, program, permitted), diags...)
}

// Review returns the mistakes that prevent a policy from being written, in addition to those of its Program. The command line refuses a policy
// with such a mistake, too.
func (r *Registry) Review(o Object, program *policy.Program, permitted family.Permissions) diag.List {
	f := r.FamilyOf(typeOf(o))
	if f == nil || isLarge(o) {
		return nil
	}
	found := checkName(o)
	if f.Review != nil {
		found.Add(f.Review(family.Reviewed{Object: o.Value, Program: program, Permissions: permitted})...)
	}
	if program != nil {
		found.Add(checkOldContent(program)...)
	}
	locate(found, o)
	return found
}

// checkOldContent reports rules that cannot do their work, or not that of deletions: they read the content of a Secret that is not there any more, outside of their
// conditions. The conditions are evaluated at admission.
func checkOldContent(p *policy.Program) (diags diag.List) {
	for _, r := range p.Rules {
		about, named := policy.AboutSecrets(r)
		const text = "the work of the rule reads the content of the old object, or of a deleted one: that of a Secret is not kept"
		switch {
		case !about || !r.OldContent.Elsewhere && !r.OldContent.Deletions:
			continue
		case r.OldContent.Deletions:
			diags.Warnf(r.Path, "%s, so the rule ends in an error for deleted Secrets", text)
		case named:
			diags.Errorf(r.Path, "%s", text)
		default:
			diags.Warnf(r.Path, "%s, so the rule ends in an error for Secrets", text)
		}
		diags.Hint("compare it in preconditions or matchConditions, which are evaluated at admission")
	}
	return diags
}

// checkName reports a name or namespace that the API server refuses.
func checkName(o Object) (diags diag.List) {
	id := IDOf(o)
	if id.Name != "" && len(validation.IsDNS1123Subdomain(id.Name)) > 0 {
		diags.Invalid("metadata.name", id.Name, "a name has at most 253 lower case letters, digits, '-' and '.', with a letter or digit at both ends")
	}
	if id.Namespace != "" && len(validation.IsDNS1123Label(id.Namespace)) > 0 {
		diags.Invalid("metadata.namespace", id.Namespace, "the name of a namespace has at most 63 lower case letters, digits and '-', with a letter or digit at both ends")
	}
	return diags
}

// IDOf returns the policy ID of an object.
func IDOf(o Object) policy.ID {
	meta, _ := o.Value["metadata"].(map[string]any)
	var id policy.ID
	id.Kind, _ = o.Value["kind"].(string)
	id.Namespace, _ = meta["namespace"].(string)
	id.Name, _ = meta["name"].(string)
	return id
}

func typeOf(o Object) (apiVersion, kind string) {
	apiVersion, _ = o.Value["apiVersion"].(string)
	kind, _ = o.Value["kind"].(string)
	return apiVersion, kind
}

func notAPolicy(o Object) (diags diag.List) {
	apiVersion, kind := typeOf(o)
	diags.Errorf("kind", "policy type not supported: %s %s", apiVersion, kind)
	diags.Code(diag.NotAPolicy, kind)
	locate(diags, o)
	return diags
}

// CheckUpdate reports forbidden changes in the update of a stored policy. It checks neither object by itself.
func (r *Registry) CheckUpdate(old, updated map[string]any) diag.List {
	f := r.FamilyOf(typeOf(Object{Value: updated}))
	if f == nil || f.CheckUpdate == nil {
		return nil
	}
	return f.CheckUpdate(old, updated)
}

// Compile compiles all objects with the families of Ephor. Every object of a family gives a Program, even with mistakes: the caller decides
// by Program.Diags whether to evaluate it. The returned diagnostics are those of all objects, in order.
func Compile(objects []Object) ([]*policy.Program, diag.List) {
	var programs []*policy.Program
	var diags diag.List
	for _, o := range objects {
		program, found := One(o)
		diags.Add(found...)
		if program != nil {
			programs = append(programs, program)
		}
	}
	return programs, diags
}

func locate(diags diag.List, o Object) {
	if o.Pos == nil {
		return
	}
	for i := range diags {
		diags[i].Pos = o.Pos(diags[i].Path)
	}
}
