// Package webhookconf keeps the webhook configurations in line with the policies (docs/operating/webhooks.md).
//
//	want, ready, unknown, err := webhookconf.Desired(webhookconf.Input{Programs: snapshot.Programs(), Settings: s, CABundle: ca, Owner: o, …})
//	written, err := (&webhookconf.Reconciler{…}).Apply(ctx, want)  // leader only
//	diags := webhookconf.Review(program, resources, false)         // warnings about a policy's kinds, for its author
//
// Desired is pure: the same input gives the same objects, in a canonical order and with all defaults of the API server, so that a comparison
// with the stored objects shows whether a write is necessary. It works in two stages: package coverage computes from the kind selectors of the
// compiled rules which requests the policies of each webhook need (rules.go, versions.go), and the rest makes webhooks from these sets. A policy
// with its own match conditions gets a separate webhook, and namespaced policies affect only their namespaces (confine.go). Policies that
// select resources with the fields of a webhook are grouped by their selectors instead, and their rules stay unchanged (group.go). Wildcards
// do not include resources that a cluster needs to recover, or that change all the time (reserved.go). Conditions that are derived from the
// policies reduce the calls by the API server (derive.go).
//
// Nothing in one policy makes the API server reject what holds others: rules, selectors, names and match conditions (conditions.go) are checked
// first, the policies of a namespace have a quota (quota.go), and Offenders finds what the API server rejects nevertheless (offender.go).
//
// The package reads Programs, never policy YAML, and writes only webhook configurations. Package status reports in the status of policies
// whether their rules are in the configurations.
//
// Floor 7: imports coverage, discovery, policy, settings, cel/compiler, cel/env, cel/typecheck, diag and wildcard.
package webhookconf
