// Package schema knows the fields of Kubernetes kinds, and of custom resources whose definitions it is given, to check the paths in
// policies.
//
//	kinds := schema.New(crds...)                       // decoded CustomResourceDefinitions
//	for _, t := range kinds.Find("*", "*", "Pod", "") {
//		spec, ok := t.Field("spec")                    // ok: Pods have a spec
//		_, ok = spec.Field("containrs")                // !ok; spec.Names() holds the intended name
//	}
//
// The fields of Kubernetes kinds come from the Go types of the API that the program is built with, by reflection when they are
// needed: there is no table to keep up to date. A kind that is newer than the program is unknown, and callers can conclude nothing
// about it.
//
// It does not validate objects; the API server does.
//
// Floor 4: imports wildcard only of ours.
package schema
