// Package intake follows policies and related objects, compiles new and changed ones, and passes them to the catalog.
//
//	policies := intake.NewPolicies(intake.PolicyOptions{Kinds: intake.Requests(), Catalog: c, Log: log})
//	kinds := &intake.Kinds{Cache: cache, Live: reader, Log: log}
//	err := kinds.Follow(ctx, append(policies.Watches(), more...))   // returns when all existing objects are in the catalog
//
// One loop handles all kinds (objects): it stores the last state of the objects, ignores events without a compiled change, and turns a
// panic of a compiler into an error of one object. Policies with their companions, exceptions and global context entries differ in how they
// handle an object. A kind that is not defined in the cluster does not block the others, and is followed once it is defined.
//
// The package writes nothing to the cluster.
//
// Floor 7: imports compile, catalog and globalctx.
package intake
