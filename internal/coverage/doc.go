// Package coverage computes with sets of requests: which operations on which resources the rules of a webhook cover.
//
//	resources, served, err := coverage.Of(target, namespaced, known) // the resources that a selector of a policy selects
//	set := coverage.Set{}
//	set.Add(resources, operations)                                   // union, with Remove, Union, On and Operations
//	set.Rules()                                                      // as the rules of a webhook, in canonical form
//
// Resource.Covers decides as the API server does when it matches a request against the rules of a webhook; the tests compare with the API
// server's own matcher. Versions holds which versions of a resource the API server converts to a version that a rule names.
//
// The package knows neither webhooks nor failure policies: package webhookconf makes webhooks from sets.
//
// Floor 4: imports discovery and policy.
package coverage
