// Package jmespath compiles and evaluates the JMESPath dialect of the Kyverno policy language, with its own lexer, parser and
// functions.
//
//	e, err := jmespath.Compile("request.object.spec.containers[].image.split(@, ':')[0]")
//	v, err := e.Search(env, root) // []any{"nginx", "redis"}
//	e.Paths()                     // [[request object spec containers]]
//
// The dialect differs from standard JMESPath in two ways. Numbers are 64-bit floats, whatever the input holds. And a key that
// an object lacks is an error, *UnknownKeyError, where the standard has null. These constructs tolerate it and continue with
// null: both sides of ||, && and |, comparisons, arguments of functions, members of [a, b] and {k: a}, the left side of every
// projection ([], [*], .*, [?…], [1:2]), which makes the projection null, and its right side, which leaves out the item. A
// field of a value that is not an object, and an index that is out of range, are null as in the standard. The left sides of
// [], .* and [?…] also turn a function's failure into null if the data cause it: containers[].keys(resources)[] is null if a
// container has no resources.
//
// Each function is in a file fn_⟨name⟩.go with its signature, documentation and examples, which run as tests.
//
// Expressions compile once to closures; an evaluation parses nothing and reads no clock, no network and no random numbers
// other than those of Env.World. Env.Meter counts work and memory. The package does not know the {{ }} syntax, does not load
// data, and keeps no state between evaluations but a bounded cache of regular expressions.
//
// Floor 0 (leaf): imports budget, compilecost, compilecost, evalenv, imageref, value, wildcard, world.
package jmespath
