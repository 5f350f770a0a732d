// Package trust keeps the keys of transparency logs and certificate authorities that signatures of images are verified with.
//
//	keeper, err := trust.New(trust.Options{HTTP: transport, Log: log})
//	go keeper.Run(ctx)                                  // renews what is in use, once a day
//	material, err := keeper.Material(ctx, world.Trust{}) // the public instance of Sigstore
//
// What is known is given at once: the root that the release carries for the public instance, and otherwise the last root that an
// update (TUF) gave. Updates happen in the background, only for roots that some policy asked for, and a failure is tried again after a
// while; a root that could not be renewed counts for a stated time after it expired. Older roots than the last one are refused. With
// Options.Offline nothing is fetched at all.
//
// It verifies no signatures (package sigverify does) and writes nothing but below Options.CacheDir.
//
// Floor 4: imports world.
package trust
