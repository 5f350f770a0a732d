// Package webhookconf makes the webhook configurations follow the policies (control plane reference §3).
//
//	want, ready := webhookconf.Desired(webhookconf.Input{Programs: snapshot.Programs(), Settings: s, CABundle: ca, Resources: discovery, Options: o})
//	result, err := (&webhookconf.Reconciler{…}).Reconcile(ctx)  // leader only
//
// Desired is pure: the same input gives the same objects, in a canonical order and with every default of the API
// server filled in, so that comparing them with what is stored tells whether to write. The rules are computed from the
// kind selectors of the compiled rules; a policy with match conditions of its own gets a webhook of its own.
//
// The package reads Programs, never policy YAML, and writes nothing but webhook configurations; status tells the
// policies whether their rules have arrived.
//
// Floor 7: imports policy, settings and wildcard.
package webhookconf
