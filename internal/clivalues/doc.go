// Package clivalues holds the command line's values beside policies and resources: values of variables, labels of
// namespaces, subresources, and the requester.
//
//	values, diags := clivalues.ReadValues("values.yaml")
//	assignments, warnings := clivalues.ParseAssignments([]string{"request.operation=UPDATE"})
//	set := clivalues.New(values, assignments)
//	v := set.For("require-labels", "web")        // of one policy and one resource
//	request.Given = v.Rule                       // what stands in for variables of a rule
//
// A later source wins: global values, then those of a policy's resource, then assignments; inside a rule the rule's own
// values win over all of them. Values for request.object and request.oldObject change the object itself, before any
// rule looks at it.
//
// It evaluates nothing and does not build requests; internal/cli does both.
//
// Floor 4: imports policy, source and leaves.
package clivalues
