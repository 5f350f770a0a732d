package celenv

import "github.com/google/cel-go/cel"

// Library is one part of the environment: functions, types or names, with what the guards know about its functions. Each has a
// file of its own, lib_⟨name⟩.go. A library that asks the world for something takes that as an interface, by way of Input.
type Library struct {
	Name string
	Doc  string // one or two sentences for the reference documentation
	// options declare what the library adds; nil for what the API server's base environment has already.
	options func() []cel.EnvOption
	// prices are the functions whose calls are checked before they are made, because their result or work is much larger than
	// their arguments.
	prices map[string]price
	// optIn: only Compilers that ask for it have the library.
	optIn bool
}

// Libraries is the explicit list of libraries that have more to them than what the API server's base environment brings.
var Libraries = []*Library{libAuthorizer, libLists, libMutations, libRegex, libSets, libStrings}

// prices are those of all libraries, by the names of the functions. A name that two libraries have has the same price.
var prices = pricesOf(Libraries)

func pricesOf(libraries []*Library) map[string]price {
	out := map[string]price{}
	for _, l := range libraries {
		for name, p := range l.prices {
			out[name] = p
		}
	}
	return out
}

// declarations are the options of the libraries that every Compiler has.
func declarations(libraries []*Library) []cel.EnvOption {
	var out []cel.EnvOption
	for _, l := range libraries {
		if l.options != nil && !l.optIn {
			out = append(out, l.options()...)
		}
	}
	return out
}
