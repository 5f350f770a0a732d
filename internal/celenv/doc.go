// Package celenv compiles and evaluates CEL expressions in the environment of the API server's admission policies: the
// libraries, the variables object, oldObject, request, namespaceObject, params, authorizer and variables, and the cost
// limits.
//
//	c := celenv.NewCompiler(celenv.Declarations{})
//	err := c.Variable("containers", "object.spec.containers")
//	hosts, err := c.Compile("variables.containers.all(c, !has(c.ports))", celenv.Bool)
//	e := c.Variables().Evaluate(ctx, &celenv.Input{Object: object}, celenv.Budget)
//	ok, err := e.Bool(hosts)
//
// Objects are read as they are decoded: map[string]any with int64 or float64 numbers (native.go, path.go). Expressions are planned by
// the library, with nodes of our own for what is frequent and for what has a price (plan.go, node.go, cost.go). The environment is built once, on
// first use, so that programs without CEL pay nothing for it; expressions are compiled once per policy. Compiler.Reads says which
// parts of the documents they read, from their checked form (reads.go). TypeCheck holds an
// expression against the Go types of built-in kinds, for warnings.
//
// The package reads nothing by itself: parameters, namespaces and answers about access are given to it, and what the functions of
// libraries ask comes from the World of the Input.
//
// Declarations say for which kind of policy expressions are compiled, and in which mode. What is added to the base environment, or
// guarded in it, is a Library in a file of its own, lib_⟨name⟩.go; library.go has the list, and Library.Kinds says who has it.
//
// Floor 0 (leaf): imports value, trace, world, apipath, textgen and certificate.
package celenv
