package celenv

import (
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Library is one part of the environment: functions, types or names, with what the guards know about its functions. Each has a
// file of its own, lib_⟨name⟩.go. A library that asks the world for something says so, and takes it from Input.
type Library struct {
	Name string
	Doc  string // one or two sentences for the reference documentation
	// Kinds are the kinds of policies that have the library; none for all of them, the API server's own included.
	Kinds Kinds
	// Asks: its functions ask the world, so that a rule that calls them needs one.
	Asks bool
	// Functions are those that the library adds.
	Functions []Function
	// options declare what the library adds besides; nil for nothing.
	options func(Declarations) []cel.EnvOption
	// types are those that the functions need; nil for none.
	types func() []*apiservercel.DeclType
	// prices are the functions whose calls are checked before they are made, because their result or work is much larger than
	// their arguments.
	prices map[string]price
	// optIn: in the API server's own policies, only Compilers that ask for it have the library.
	optIn bool
}

// Libraries is the explicit list of libraries that have more to them than what the API server's base environment brings.
var Libraries = []*Library{
	libAuthorizer, libExtensions, libHash, libLists, libMath, libMutations, libOptional, libRegex, libSets, libStrings,
	libJSON, libYAML, libGzip, libTime, libRandom, libTransform, libUser, libX509, libImage,
	libImageData, libPolicyImageData, libImageVerify, libResource, libHTTP, libGlobalContext, libGenerator,
	libCheck, libCheckHTTP, libCheckEnvoy, libJWT,
}

// prices are those of all libraries, by the names of the functions. A name that two libraries have has the same price.
var prices = pricesOf(Libraries)

func pricesOf(libraries []*Library) map[string]price {
	out := maps.Clone(basePrices)
	for _, l := range libraries {
		for name, p := range l.prices {
			out[name] = p
		}
	}
	return out
}

// byName are the Functions of all libraries; libraryOf is the library of each.
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

// declarations are the options and types of the libraries that an environment has.
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
