// Package updaterequest contains the parts that the writer, the worker and the follower of UpdateRequests (kyverno.io/v2) share: names,
// keys, labels, limits, and the rules and triggers of a request.
//
//	name := updaterequest.Name(string(kind), policyKey, updaterequest.TriggerID(trigger))
//	key := updaterequest.Key(policyKey, trigger)          // the key by which replicas share the work
//	for _, r := range updaterequest.Rules(&request.Spec)  // each rule with its trigger
//
// An UpdateRequest stores the work that generate and mutate-existing rules request until it is executed. There is one for each policy
// and trigger. Requests for an object that was generated for the trigger, or for a copied source, get separate ones, and so do requests that
// a rule reads more of than the object. Three packages below this one process them:
//
//   - enqueue writes them for an admission request, before it is answered;
//   - execute executes them: it evaluates the rules again and writes the results;
//   - follow writes them for changes of policies, and cleans up after deleted rules.
//
// A fourth one, origin, knows which rule generated an object; execute and follow use it.
//
// The package itself only writes through API, which has the few calls that enqueue and follow need, and LeavePending, which a process
// calls before it ends.
//
// Floor 7: imports the floors below and nothing of its own floor.
package updaterequest
