// Package workload finds the controllers of an object, and compares the object with the template of one of them.
//
//	owners, err := workload.Owners(ctx, world.Objects, namespace, pod)  // the ReplicaSet, the Deployment
//	if workload.Gives(owners[1], owners[0], pod, rule.Content, false) { … } // the Deployment's template has the same content
//
// An owner reference proves nothing: every user who may create Pods can write one with the UID of a live object. It only finds the
// controller. An object belongs to a controller only if the template of the live controller gives the object's content, in all fields that
// matter to the caller, after the defaults and the additions that the API server and its controllers make (object.go and pod.go list
// them). Anything else is a difference.
//
// The package knows no exceptions and no policies.
//
// Floor 2: imports value and world.
package workload
