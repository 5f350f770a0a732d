// Package clivalues holds the values that users give on the command line in addition to policies and resources: values
// of variables, labels of namespaces, subresources, and the requester.
//
//	values, diags := clivalues.ReadValues("values.yaml")
//	assignments, warnings := clivalues.ParseAssignments([]string{"request.operation=UPDATE"})
//	set := clivalues.New(values, assignments)
//	v := set.For("require-labels", "web")        // for one policy and one resource
//	request.Given = v.Rule                       // replaces variables of a rule
//
// Later sources override earlier ones: global values, then those for a policy's resource, then assignments. Inside a
// rule, the rule's own values override all of them. Values for request.object and request.oldObject change the object
// itself, before any rule reads it.
//
// The package neither evaluates nor builds requests; internal/cli does both.
//
// Floor 4: imports policy, source and leaves.
package clivalues
