package load

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/lint"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/value"
)

// PolicySet holds the policies of one run.
type PolicySet struct {
	Programs []*policy.Program
	Within   []source.Object // exceptions among the policies
	Refused  []Refusal
	Passed   PassedBy
	objects  map[*policy.Program]compile.Object // the objects of Programs
	Diags    diag.List
}

// Refusal is a policy that is not applied because of a mistake in it.
type Refusal struct {
	Name   string
	Errors diag.List
}

// Reason returns all mistakes of the policy on one line.
func (r Refusal) Reason() string {
	out := make([]string, len(r.Errors))
	for i, d := range r.Errors {
		out[i] = d.Summary
		if d.Path != "" {
			out[i] = d.Path + ": " + d.Summary
		}
	}
	return strings.Join(out, "; ")
}

// ElementOnly reports whether the first mistake is a use of foreach's element outside of a foreach. Kyverno lists such
// policies separately.
func (r Refusal) ElementOnly() bool {
	first := r.Errors[0]
	return first.Code == diag.ElementOutsideForeach && first.Name == "element.name"
}

// Rules returns the number of rules of all policies, including those generated for Pod controllers.
func (s PolicySet) Rules() int {
	n := 0
	for _, p := range s.Programs {
		for _, r := range p.Rules {
			// A policy without rules counts once. Its generated parts have an empty name or the name of the policy.
			if r.Origin.Controllers == "" || r.Name != "" && r.Name != p.Name {
				n++
			}
		}
	}
	return n
}

// Policies reads and compiles all policies of the families in the paths; nil means the families of Ephor. It refuses policies with a
// mistake and keeps the others.
func Policies(families *compile.Registry, paths []string, stdin io.Reader) PolicySet {
	return PoliciesFrom(families, paths, source.Options{Stdin: stdin, Git: &source.Git{}}, 0)
}

// PoliciesFrom does what Policies does, for the given version of the API server. The options set standard input and how URLs are read.
func PoliciesFrom(families *compile.Registry, paths []string, o source.Options, server kubeversion.Minor) PolicySet {
	return policiesFor(families, paths, o, family.Options{Types: knownTypes, CommandLine: true, Server: server})
}

// ForTest is like Policies, for a test. targets: the test gives the existing resources that policies change.
func ForTest(families *compile.Registry, paths []string, targets bool, server kubeversion.Minor) PolicySet {
	return policiesFor(families, paths, source.Options{Git: &source.Git{}}, family.Options{Types: knownTypes, CommandLine: true, Targets: targets, Server: server})
}

// InForce does what PoliciesFrom does, for policies as the controllers of a cluster evaluate them: a namespaced policy applies only to its
// namespace.
func InForce(families *compile.Registry, paths []string, o source.Options) PolicySet {
	return policiesFor(families, paths, o, inForce)
}

// inForce are the options with which the controllers of a cluster compile policies.
var inForce = family.Options{Types: knownTypes}

func policiesFor(families *compile.Registry, paths []string, o source.Options, types family.Options) PolicySet {
	o.Recursive, o.Numbers = true, source.Exact
	objects, diags := source.Load(paths, o)
	return policiesOf(families, objects, diags, types)
}

func policiesOf(families *compile.Registry, objects []source.Object, diags diag.List, types family.Options) PolicySet {
	set := PolicySet{objects: map[*policy.Program]compile.Object{}}
	set.Diags = set.Passed.Files(diags)
	companions := compile.Companions{Registry: families}
	var policies []compile.Object
	var ids []policy.ID
	for _, o := range objects {
		apiVersion, _ := o.Value["apiVersion"].(string)
		kind, object := o.Kind(), compile.Object{Value: o.Value, Pos: o.Pos}
		switch {
		case families.CompanionOf(apiVersion, kind) != nil:
			set.Diags.Add(companions.Add(object)...)
		case isException(o):
			set.Within = append(set.Within, o)
		case families.Owns(apiVersion, kind):
			policies, ids = append(policies, object), append(ids, compile.IDOf(object))
		default:
			set.Diags.Add(set.Passed.Other(families, o)...)
		}
	}
	set.Diags.Add(companions.Unattached(ids)...)
	set.Diags.Add(Unstorable(policies)...)
	for i, o := range policies {
		program, found := families.With(o, companions.Of(ids[i]), types)
		found = append(families.Review(o, program, family.Permissions{Documents: types.CommandLine, Server: types.Server}), found...)
		set.Diags.Add(found...)
		set.Diags.Add(lint.Slips(o)...)
		if found.HasErrors() {
			set.Refused = append(set.Refused, Refusal{cmp.Or(program.Name, "a policy without a name"), found.Errors()})
			continue
		}
		set.Programs, set.objects[program] = append(set.Programs, program), o
	}
	return set
}

// Causes returns the likely mistakes in the policies because of which rules end in errors. programs are policies of which a rule did.
func (s PolicySet) Causes(programs map[*policy.Program]bool) (diags diag.List) {
	for _, p := range s.Programs {
		if programs[p] {
			diags.Add(lint.Causes(s.objects[p])...)
		}
	}
	return diags
}

// maxObject is the size of the objects that a cluster stores, as etcd limits a request.
const maxObject = 3 << 19

// Unstorable warns of policies that a cluster would not store as they are: those with the kind, namespace and name of an earlier one, and those
// that are too large.
func Unstorable(policies []compile.Object) (diags diag.List) {
	first := map[policy.ID]diag.Position{}
	for _, o := range policies {
		id := compile.IDOf(o)
		var at diag.Position
		if o.Pos != nil {
			at = o.Pos("metadata.name")
		}
		if size := len(value.JSON(o.Value)); size > maxObject {
			diags.Add(diag.Diagnostic{
				Severity: diag.Warning, Pos: at, Path: "metadata.name", Summary: fmt.Sprintf("the policy has %.1f MiB, and a cluster stores objects of at most 1.5 MiB", float64(size)/(1<<20)),
				Hint: "split it into several policies",
			})
		}
		before, known := first[id]
		if !known {
			first[id] = at
			continue
		}
		diags.Add(diag.Diagnostic{
			Severity: diag.Warning, Pos: at, Path: "metadata.name", Summary: "a " + id.Kind + " with this name already exists, at " + before.String(),
			Hint: "in a cluster the later one replaces the earlier one: rename one of them, or leave it out",
		})
	}
	return diags
}

// knownTypes returns the types of all kinds of Kubernetes. They are large, and are built when a mutating policy first needs them.
var knownTypes = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })
