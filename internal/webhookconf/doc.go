// Package webhookconf keeps the webhook configurations in line with the policies (docs/operating/webhooks.md).
//
//	want, ready, unknown, err := webhookconf.Desired(webhookconf.Input{Programs: snapshot.Programs(), Settings: s, CABundle: ca, Owner: o, …})
//	written, err := (&webhookconf.Reconciler{…}).Apply(ctx, want)  // leader only
//	diags := webhookconf.Review(program, resources, false)         // what a policy's kinds mean, for its author
//
// Desired is pure: the same input gives the same objects, in a canonical order and with every default of the API server filled in, so that
// a comparison with the stored objects shows whether to write. The rules are computed from the kind selectors of the compiled rules. A
// policy with match conditions of its own gets a separate webhook, and namespaced policies affect only their namespaces (confine.go).
// Policies that select resources with the fields of a webhook are grouped by their selectors instead, and keep their rules unchanged
// (group.go). Wildcards leave out resources that a cluster needs to recover, or that change all the time (reserved.go). Conditions derived
// from the policies save the API server calls (derive.go).
//
// The package reads Programs, never policy YAML, and writes only webhook configurations. Package status reports to policies whether their
// rules are in place.
//
// Floor 7: imports discovery, policy, settings, celenv, diag and wildcard.
package webhookconf
