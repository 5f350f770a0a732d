// Package intake follows the objects that policies consist of, compiles what is new or changed, and gives it to the catalog.
//
//	policies := intake.NewPolicies(intake.PolicyOptions{Kinds: intake.Requests(), Catalog: c, Log: log})
//	kinds := &intake.Kinds{Cache: cache, Live: reader, Log: log}
//	err := kinds.Follow(ctx, append(policies.Watches(), more...))   // returns when all that exists is in the catalog
//
// There is one loop for every kind (objects): it keeps the objects as they were last seen, leaves out news that change nothing that
// is compiled, and turns a panic of a compiler into an error of one object. Policies with their companions, exceptions and global
// context entries differ in what they do with an object. A kind that is not defined in the cluster keeps nothing else from being
// followed, and is followed as soon as it is defined.
//
// The package writes nothing to the cluster.
//
// Floor 7: imports compile, catalog and globalctx.
package intake
