// Package celenv compiles and evaluates CEL expressions in the environment of the API server's admission policies, with the same libraries,
// cost limits, and variables: object, oldObject, request, namespaceObject, params, authorizer and variables.
//
//	c := celenv.NewCompiler(celenv.Declarations{})
//	err := c.Variable("containers", "object.spec.containers")
//	hosts, err := c.Compile("variables.containers.all(c, !has(c.ports))", celenv.Bool)
//	e := c.Variables().Evaluate(ctx, &celenv.Input{Object: object}, celenv.Budget)
//	ok, err := e.Bool(hosts)
//
// Expressions read objects as decoded, as map[string]any with int64 or float64 numbers, without conversion (native.go, path.go). The library
// plans the expressions, with nodes of our own for frequent operations and for operations with a price (plan.go, node.go, cost.go).
//
//	text ──parse, check──▶ checked expression ──Compiler.Reads──▶ what it reads of the documents (reads.go)
//	                             │ planner.plan, each node through these decorators in this order:
//	                             │   node        our nodes for paths, calls, equality, constructors (node.go, path.go, call.go)
//	                             │   remembered  keeps the fields of structs under construction     (guard.go)
//	                             │   loopStep    charges an iteration                                (loop_cost.go)
//	                             │   quantifier  replaces the loops of all and exists                (quantifier.go)
//	                             ▼
//	                           plan ──Evaluation, which charges its meter (meter.go)──▶ value
//
// Environments are built on first use, so that programs without CEL need no time for them; expressions are compiled once per policy.
// Compiler.Reads derives from their checked form which parts of the documents they read (reads.go). NewTypeCheck checks expressions against
// the schemas of kinds, for warnings.
//
// The package reads nothing by itself. The caller provides parameters, namespaces and answers about access, and the functions of libraries
// query the World of the Input.
//
// Declarations state for which kind of policy and in which mode expressions are compiled. Each addition to the base environment, and each
// restriction of it, is a Library in its own file lib_⟨name⟩.go. library.go has the list, and Library.Kinds states which kinds of policies
// have the library.
//
// Floor 0 (leaf): imports value, compilecost, trace, world, apipath, textgen and certificate.
package celenv
