// Package status writes the status of policies and GlobalContextEntries. For a policy: the condition Ready with its reason, the number
// of its rules, and the rules that were derived for Pod controllers. For an entry: whether it has data, and since when.
//
//	want, err := status.Desired(families, policyObject, state)     // pure
//	written, err := (&status.Writer{Client: c}).Write(ctx, policyObject, want)
//
// Only the leader writes, and only after the webhook configurations hold the policy's rules, since users take Ready to mean "enforced
// from now on". A status that is already correct is not written.
//
// The package does not decide whether a policy is ready; webhookconf does.
//
// Floor 7: imports the api types and autogen.
package status
