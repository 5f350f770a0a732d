// Package schema knows which fields the kinds of Kubernetes have, and those of custom resources whose definitions are
// given, so that a path in a policy can be held against them.
//
//	kinds := schema.New(crds...)                       // decoded CustomResourceDefinitions
//	for _, t := range kinds.Find("*", "*", "Pod", "") {
//		spec, ok := t.Field("spec")                    // ok: Pods have a spec
//		_, ok = spec.Field("containrs")                // !ok; spec.Names() has what was meant
//	}
//
// The fields of Kubernetes kinds are those of the Go types of the API that the program is built with, read by
// reflection when they are asked for: there is no table to keep up to date. A kind that is newer than the program is
// unknown, which is for the caller to take as "nothing can be said".
//
// It does not validate objects; that is the API server's.
//
// Floor 4: imports wildcard only of ours.
package schema
