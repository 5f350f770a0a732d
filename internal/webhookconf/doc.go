// Package webhookconf makes the webhook configurations follow the policies (docs/operating/webhooks.md).
//
//	want, ready, unknown, err := webhookconf.Desired(webhookconf.Input{Programs: snapshot.Programs(), Settings: s, CABundle: ca, Owner: o, …})
//	written, err := (&webhookconf.Reconciler{…}).Apply(ctx, want)  // leader only
//	diags := webhookconf.Review(program, resources, false)         // what a policy's kinds mean, for its author
//
// Desired is pure: the same input gives the same objects, in a canonical order and with every default of the API
// server filled in, so that comparing them with what is stored reports whether to write. The rules are computed from the
// kind selectors of the compiled rules; a policy with match conditions of its own gets a webhook of its own, and what
// namespaced policies bring stays in their namespaces (confine.go). Policies that select resources with the fields of a webhook
// are grouped by their selectors instead, and keep the rules as they were written (group.go). Resources
// that a cluster needs to come back, or that change all the time, do not come by wildcard (reserved.go); conditions that
// follow from the policies spare the API server calls (derive.go).
//
// The package reads Programs, never policy YAML, and writes nothing but webhook configurations; status tells the
// policies whether their rules have arrived.
//
// Floor 7: imports discovery, policy, settings, celenv, diag and wildcard.
package webhookconf
