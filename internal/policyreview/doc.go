// Package policyreview reviews policies, exceptions, global context entries, cleanup policies and TTL labels when a user writes them.
//
//	v := &policyreview.Reviewer{Options: options, Discovery: cluster, Root: root, Programs: programs, Patience: policyreview.GrantPatience, …}
//	answer := v.Policy(ctx, request)   // also Cleanup, Exception, GlobalContext, TTL
//
// A policy is admitted if it compiles: the same compiled form is executed later. A review also asks the API server which kinds it serves,
// and whether the controllers, and the author of a namespaced policy, have the rights that the policy needs. It warns of loops between
// rules, of kinds without reports and of fields that a CEL expression cannot find.
//
// A refusal begins with the text of the first mistake, with Kyverno's text (wording.go); the following lines say where the mistake is,
// how to correct it and what else is wrong.
//
// The package serves no HTTP and decodes no AdmissionReview: package admission does, and it evaluates policies on resources.
//
// Floor 7: imports the floors below and nothing of its own floor.
package policyreview
