package celenv

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Library is one part of the environment: functions, types or names, together with the limits for its functions. Each has its
// own file, lib_⟨name⟩.go. A library that queries the World sets Asks, and uses the World in Input.
type Library struct {
	Name string
	Doc  string // one or two sentences for the reference documentation
	// Kinds are the kinds of policies that have the library. An empty set means all kinds, including the API server's own policies.
	Kinds Kinds
	// Asks: the functions query the World, so a rule that calls them needs one.
	Asks bool
	// Functions are the functions that the library adds.
	Functions []Function
	// options returns further declarations of the library; nil for none.
	options func(Declarations) []cel.EnvOption
	// types returns the types that the functions need; nil for none.
	types func() []*apiservercel.DeclType
	// limits are the functions whose calls are checked in advance, because their result or work is much larger than their
	// arguments.
	limits map[string]limit
	// searches are the functions with a regular expression as an argument, with their charges.
	searches map[string]searchCharge
	// optIn: for the API server's own policies, only Compilers that request the library have it.
	optIn bool
}

// Libraries is the explicit list of all libraries that add to the API server's base environment, or restrict it.
var Libraries = []*Library{
	libAuthorizer, libExtensions, libHash, libLists, libMath, libMutations, libOptional, libRegex, libSets, libStrings,
	libJSON, libYAML, libGzip, libTime, libRandom, libTransform, libUser, libX509, libImage,
	libImageData, libPolicyImageData, libImageVerify, libResource, libHTTP, libGlobalContext, libGenerator,
	libCheck, libCheckHTTP, libCheckEnvoy, libJWT,
}

// limits holds the limits of all libraries by function name. If two libraries have a function of the same name, it has the same limit in
// both.
var limits = limitsOf(Libraries)

func limitsOf(libraries []*Library) map[string]limit {
	out := maps.Clone(baseLimits)
	for _, l := range libraries {
		for name, p := range l.limits {
			out[name] = p
		}
	}
	return out
}

// byName holds the Functions of all libraries; libraryOf holds the library of each.
var byName, libraryOf = functionsOf(Libraries)

func functionsOf(libraries []*Library) (map[string]*Function, map[string]*Library) {
	out, of := map[string]*Function{}, map[string]*Library{}
	for _, l := range libraries {
		for i := range l.Functions {
			for _, name := range l.Functions[i].Names {
				out[name], of[name] = &l.Functions[i], l
			}
		}
	}
	return out, of
}

func libraryNamed(name string) *Library {
	return Libraries[slices.IndexFunc(Libraries, func(l *Library) bool { return l.Name == name })]
}

// In reports whether the expressions of a kind have the library.
func (l *Library) In(k Kind) bool { return l.Kinds == 0 || l.Kinds.Has(k) }

// declarations returns the options and types of the libraries in an environment.
func declarations(d Declarations) (out []cel.EnvOption, types []*apiservercel.DeclType) {
	for _, l := range Libraries {
		if !l.In(d.Kind) || l.optIn && d.Kind == Native {
			continue
		}
		if l.options != nil {
			out = append(out, l.options(d)...)
		}
		if l.types != nil {
			types = append(types, l.types()...)
		}
		for i := range l.Functions {
			out = append(out, l.Functions[i].declare(d)...)
		}
	}
	return out, types
}

// functionOf returns the Function that is called, or nil for a function of the CEL library.
func functionOf(name, overload string) *Function {
	if overload == "" || strings.HasPrefix(overload, overloadPrefix) {
		return byName[name]
	}
	return nil
}
