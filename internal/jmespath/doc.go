// Package jmespath compiles and evaluates the JMESPath dialect of the Kyverno policy language, with a lexer, a parser
// and functions of its own.
//
//	e, err := jmespath.Compile("request.object.spec.containers[].image.split(@, ':')[0]")
//	v, err := e.Search(env, root) // []any{"nginx", "redis"}
//	e.Paths()                     // [[request object spec containers]]
//
// The dialect differs from standard JMESPath in two things. Numbers are 64-bit floats, whatever the input holds. And a
// key that an object lacks is an error, *UnknownKeyError, where the standard has null. These constructs tolerate it and go on
// with null: both sides of ||, && and |, comparisons, arguments of functions, members of [a, b] and {k: a}, the left side of
// every projection ([], [*], .*, [?…], [1:2]), whose result is null then, and its right side, where the item is left out. A
// field of what is no object, and an index that is out of range, are null as in the standard. The left sides of [], .* and
// [?…] make null of a function's failure too, when it comes of the data: containers[].keys(resources)[] is null where a
// container has no resources.
//
// Each function stands in a file fn_⟨name⟩.go with its signature, documentation and examples, which run as tests.
//
// Expressions compile once to closures; an evaluation parses nothing and reads no clock, no network and no random numbers
// but those of Env.World. Work and memory are counted by Env.Meter. The package does not know the {{ }} syntax, does not load
// data, and keeps nothing between evaluations but a bounded cache of regular expressions.
//
// Floor 0 (leaf): imports budget, evalenv, imageref, value, wildcard, world.
package jmespath
