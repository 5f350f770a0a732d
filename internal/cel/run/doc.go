// Package run plans and evaluates checked CEL expressions.
//
//	x, err := variables.Compile(run.PlannerOf(d), d.Env(), text, checked, reads.OfObject, false)
//	e := variables.Evaluate(ctx, &run.Input{Object: object}, price.Budget)
//	ok, err := e.Bool(x)
//
// cel-go plans an expression as a tree of nodes. Decorators replace its nodes by ours for paths, calls, comparisons, constructors and loops
// (planning.decorators has them in order, with the reason of each place): ours read decoded JSON without conversion, and charge the meter before
// they work. What is relied upon that cel-go does not export is tested with the version of cel-go in celgo_test.go.
//
// The package reads nothing by itself. The caller provides parameters, namespaces and answers about access, and the functions of libraries
// query the World of the Input.
//
// Floor 0 (leaf): imports cel/env, cel/price, cel/typecheck, cel/values, trace and world.
package run
