package compile

import (
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/exception"
	"github.com/ephor-dev/ephor/internal/family/classic"
	"github.com/ephor-dev/ephor/internal/family/cleanup"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Object is one object to compile.
type Object struct {
	Value map[string]any
	// Pos gives the position of a field path; nil when the object does not come from a file.
	Pos func(path string) diag.Position
}

// Family is one family of policies: a small compiler.
type Family struct {
	Name string
	Doc  string
	// Owns reports whether objects of the kind belong to the family, whatever their version.
	Owns func(apiVersion, kind string) bool
	// Compile decodes, checks and compiles one object. It always returns a Program; its Diags are complete.
	Compile func(object map[string]any) *policy.Program
	// CheckUpdate, when set, finds what the update of a stored object may not change.
	CheckUpdate func(old, updated map[string]any) diag.List
}

// Families is the explicit list of policy families.
var Families = []Family{
	{
		Name: "classic", Doc: "ClusterPolicy and Policy of kyverno.io", Owns: classic.Owns,
		Compile: func(object map[string]any) *policy.Program {
			p, diags := classic.Decode(object)
			diags.Add(classic.Check(p)...)
			program := classic.Compile(p)
			diags.Add(program.Diags...)
			program.Diags = diags
			return program
		},
		CheckUpdate: func(old, updated map[string]any) diag.List {
			before, _ := classic.Decode(old)
			after, _ := classic.Decode(updated)
			return classic.CheckUpdate(before, after)
		},
	},
	{
		Name: "cleanup", Doc: "ClusterCleanupPolicy and CleanupPolicy of kyverno.io", Owns: cleanup.Owns,
		Compile: func(object map[string]any) *policy.Program {
			p, diags := cleanup.Decode(object)
			diags.Add(cleanup.Check(p)...)
			program := cleanup.Compile(p)
			diags.Add(program.Diags...)
			program.Diags = diags
			return program
		},
	},
}

// Owns reports whether some family compiles objects of the kind.
func Owns(apiVersion, kind string) bool { return familyOf(apiVersion, kind) != nil }

func familyOf(apiVersion, kind string) *Family {
	for i := range Families {
		if Families[i].Owns(apiVersion, kind) {
			return &Families[i]
		}
	}
	return nil
}

// One compiles one policy. The Program is nil when the object belongs to no family; then the diagnostics say so.
// Otherwise the diagnostics are Program.Diags, with positions.
func One(o Object) (*policy.Program, diag.List) {
	apiVersion, _ := o.Value["apiVersion"].(string)
	kind, _ := o.Value["kind"].(string)
	family := familyOf(apiVersion, kind)
	if family == nil {
		var diags diag.List
		diags.Errorf("kind", "policy type not supported: %s %s", apiVersion, kind)
		diags.Code(diag.NotAPolicy, kind)
		locate(diags, o)
		return nil, diags
	}
	if pathBytes(o.Value["spec"], 0, maxPaths) > maxPaths {
		program := tooLarge(family, o.Value)
		locate(program.Diags, o)
		return program, program.Diags
	}
	program := family.Compile(o.Value)
	locate(program.Diags, o)
	return program, program.Diags
}

// OwnsException reports whether objects of the kind are exceptions that OneException compiles.
func OwnsException(apiVersion, kind string) bool { return exception.Owns(apiVersion, kind) }

// OneException compiles one exception. Its Diags are the returned diagnostics, with positions; an exception with errors
// among them must not be used.
func OneException(o Object) (*policy.Exception, diag.List) {
	e, diags := exception.Compile(o.Value)
	locate(diags, o)
	return e, diags
}

// CheckUpdate finds what the update of a stored policy may not change. Neither object is checked by itself.
func CheckUpdate(old, updated map[string]any) diag.List {
	apiVersion, _ := updated["apiVersion"].(string)
	kind, _ := updated["kind"].(string)
	family := familyOf(apiVersion, kind)
	if family == nil || family.CheckUpdate == nil {
		return nil
	}
	return family.CheckUpdate(old, updated)
}

// Compile compiles all objects. Every object of a family gives a Program, also one with mistakes: whether it may run is
// for the caller to decide by Program.Diags. The returned diagnostics are those of all objects, in their order.
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
