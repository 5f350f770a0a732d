// Package updaterequest holds what the writer, the worker and the follower of UpdateRequests (kyverno.io/v2) share: names, keys, labels,
// limits, and the rules and triggers of a request.
//
//	name := updaterequest.Name(string(kind), policyKey, updaterequest.TriggerID(trigger))
//	key := updaterequest.Key(policyKey, trigger)          // by which replicas share the work
//	for _, r := range updaterequest.Rules(&request.Spec)  // each rule with its trigger
//
// An UpdateRequest keeps the work that generate and mutate-existing rules ask for until it is carried out. There is one for each
// policy and trigger, and one more for each where the request is about an object that was made for the trigger, or that is copied.
// Three packages below this one work on them:
//
//   - enqueue writes them for an admission request, before it is answered;
//   - execute carries them out: it evaluates the rules again and writes what comes out;
//   - follow writes them for changes of policies, and undoes what rules made that are gone.
//
// The package writes nothing itself, apart from API, the few calls that enqueue and follow need, and LeavePending, which a process calls
// as it ends.
//
// Floor 7: imports the floors below and nothing of its own floor.
package updaterequest
