// Package compiler compiles CEL expressions in the environment of the API server's admission policies, with the same libraries, cost limits,
// and variables: object, oldObject, request, namespaceObject, params, authorizer and variables.
//
//	c := compiler.New(env.Declarations{})
//	err := c.Variable("containers", "object.spec.containers")
//	hosts, err := c.Compile("variables.containers.all(c, !has(c.ports))", typecheck.Bool)
//	e := c.Variables().Evaluate(ctx, &run.Input{Object: object}, price.Budget)
//	ok, err := e.Bool(hosts)
//
// CEL is a pipeline of packages, each of which imports only those before it:
//
//	values ──▶ price ──▶ env ──▶ typecheck ──┬──▶ reads ──┬──▶ compiler
//	                                         └──▶ run ────┘
//
//	text
//	  │ typecheck: parse, check the limits of size, check types       charges compilecost.Allowance before it checks
//	  ▼
//	checked expression ──reads──▶ what it reads of the documents, which libraries it calls, which objects it names
//	  │ run: plan, each node through the decorators that planning.decorators lists      equal plans are shared
//	  ▼
//	plan ──run.Evaluation──▶ value
//	          │ nodes charge price.Meter: an expression when it starts, an iteration before its work, a call of one of cel-go's functions
//	          │ before it is made, a comparison by the number of values (run/node.go)
//	          ▼
//	       env.Function.Invoke charges price.Meter for a call of one of our functions, and gives it an env.Scope: the World, and the meter
//
// Package values holds what values look like: decoded JSON is read as it is, without conversion. Package price holds what things cost, and all
// limits. Package env declares: the variables, the functions of each kind of policy, one file per library. A function that queries the cluster
// is one file there, lib_⟨name⟩.go, with its name in library.go.
//
// Environments are built on first use, so that programs without CEL need no time for them; expressions are compiled once per policy. NewTypeCheck
// checks expressions against the schemas of kinds, for warnings.
//
// Floor 0 (leaf): imports cel/env, cel/reads, cel/run, cel/typecheck, compilecost, kubeversion, strict and value.
package compiler
