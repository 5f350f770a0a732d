package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/family"
	"github.com/ephor-dev/ephor/internal/family/native"
	"github.com/ephor-dev/ephor/internal/globalentry"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/source"
)

// policySet are the policies of one run.
type policySet struct {
	programs []*policy.Program
	within   []source.Object // exceptions among the policies
	refused  []refusal
	diags    diag.List
}

// refusal is a policy that is not applied because of a mistake in it.
type refusal struct {
	name   string
	cel    bool // it is a policy of policies.kyverno.io
	errors diag.List
}

// reason is all that is wrong with the policy, on one line.
func (r refusal) reason() string {
	out := make([]string, len(r.errors))
	for i, d := range r.errors {
		out[i] = d.Summary
		if d.Path != "" {
			out[i] = d.Path + ": " + d.Summary
		}
	}
	return strings.Join(out, "; ")
}

// printRefused names each policy whose expressions do not compile, with all mistakes, as Kyverno does.
func (s policySet) printRefused(w io.Writer) {
	for _, r := range s.refused {
		if !r.cel {
			continue
		}
		texts := make([]string, len(r.errors))
		for i, d := range r.errors {
			texts[i] = d.Path + ": " + d.Summary
		}
		fmt.Fprintf(w, "Error: failed to compile policy %s ([%s])\n", r.name, strings.Join(texts, ", "))
	}
}

// elementOnly reports whether the first mistake is a use of foreach's element elsewhere; Kyverno lists these
// policies apart.
func (r refusal) elementOnly() bool {
	first := r.errors[0]
	return first.Code == diag.ElementOutsideForeach && first.Name == "element.name"
}

// rules counts the rules of all policies, those generated for pod controllers included.
func (s policySet) rules() int {
	n := 0
	for _, p := range s.programs {
		for _, r := range p.Rules {
			if r.Name != "" || r.Origin.Controllers == "" { // what is generated from a policy without rules is a part of it
				n++
			}
		}
	}
	return n
}

// loadPolicies reads and compiles everything in the paths that is a policy. A policy with a mistake is not applied; the
// others are.
func loadPolicies(paths []string, stdin io.Reader) policySet {
	return loadPoliciesFrom(paths, source.Options{Stdin: stdin, Git: &source.Git{}})
}

// loadPoliciesFrom is loadPolicies with options: where standard input is, and how URLs are read.
func loadPoliciesFrom(paths []string, o source.Options) policySet {
	o.Recursive, o.Numbers = true, source.Exact
	objects, diags := source.Load(paths, o)
	set := policySet{diags: diags}
	var companions compile.Companions
	var policies []compile.Object
	var ids []policy.ID
	for _, o := range objects {
		apiVersion, _ := o.Value["apiVersion"].(string)
		kind, object := o.Kind(), compile.Object{Value: o.Value, Pos: o.Pos}
		switch {
		case compile.CompanionOf(apiVersion, kind) != nil:
			set.diags.Add(companions.Add(object)...)
		case isException(o):
			set.within = append(set.within, o)
		case compile.Owns(apiVersion, kind):
			policies, ids = append(policies, object), append(ids, compile.IDOf(object))
		case !o.Repository: // else it is whatever else lies there
			set.diags.Add(foreign(o, apiVersion, kind))
		}
	}
	set.diags.Add(companions.Unattached(ids)...)
	types := family.Options{Types: knownTypes, CommandLine: true}
	for i, o := range policies {
		program, found := compile.With(o, companions.Of(ids[i]), types)
		set.diags.Add(found...)
		if found.HasErrors() {
			set.refused = append(set.refused, refusal{program.Name, strings.HasPrefix(program.APIVersion, "policies.kyverno.io/"), found.Errors()})
			continue
		}
		set.programs = append(set.programs, program)
	}
	return set
}

// knownTypes are the types of all kinds of Kubernetes. They are large, and made when a policy that mutates first asks for them.
var knownTypes = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })

// ruleless reports whether the rule is the only one of a policy that has no rules of its own: it is named as the policy is.
func ruleless(r *policy.Rule) bool {
	return r.Stage == policy.StageDelete || r.Kind == native.RuleKind || r.Kind == native.ValidatingRuleKind
}

// foreign says what to tell about an object that no policy family owns. Policies of kinds that are not there yet and
// Kubernetes objects are mistakes; anything else may lie beside the policies for reasons of its own.
func foreign(o source.Object, apiVersion, kind string) diag.Diagnostic {
	d := diag.Diagnostic{Pos: o.Pos("kind")}
	group, _, named := strings.Cut(apiVersion, "/")
	if !named {
		group = ""
	}
	switch {
	case compile.Owns(apiVersion, kind), compile.CompanionOf(apiVersion, kind) != nil:
		d.Severity = diag.Warning
		d.Summary = "policies of kind " + kind + " are applied and tested, but neither explained nor checked for likely mistakes"
		d.Code, d.Name = diag.NotSupported, kind
		d.Hint = "it is passed over"
	case globalentry.Owns(apiVersion, kind):
		d.Severity = diag.Warning
		d.Summary = "a GlobalContextEntry is not a policy"
		d.Code, d.Name = diag.NotAPolicy, kind
		d.Hint = "it is read where it is given with --resource"
	case group == "kyverno.io" || group == "policies.kyverno.io",
		group == "admissionregistration.k8s.io" && strings.Contains(kind, "AdmissionPolicy"):
		d.Summary = "policies of kind " + kind + " (" + apiVersion + ") are not supported by this version"
		d.Code, d.Name = diag.NotSupported, kind
		d.Hint = "it is not applied"
	case source.KubernetesGroup(group):
		d.Summary = "policy type not supported: " + apiVersion + " " + kind
		d.Code, d.Name = diag.NotAPolicy, kind
		d.Hint = "resources are given with --resource, in a test under resources"
	default:
		d.Severity = diag.Warning
		d.Summary = apiVersion + " " + kind + " is not a policy"
		d.Code, d.Name = diag.NotAPolicy, kind
		d.Hint = "it is passed over"
	}
	return d
}
