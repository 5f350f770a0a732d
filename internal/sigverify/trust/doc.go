// Package trust provides the keys of transparency logs and certificate authorities for verifying signatures of images, and keeps them
// up to date.
//
//	keeper, err := trust.New(trust.Options{HTTP: transport, Log: log})
//	go keeper.Run(ctx)                                  // renews the roots in use, once a day
//	material, err := keeper.Material(ctx, world.Trust{}) // the public instance of Sigstore
//
// Material returns known keys at once: the root of the last update (TUF), or before the first update the root that the release
// contains for the public instance. Updates run in the background, only for roots that policies use, and are retried after a failure.
// A root that cannot be renewed stays valid for a grace period after its expiry. Roots older than the last one are rejected. With
// Options.Offline nothing is fetched at all.
//
// It does not verify signatures (package sigverify does), and writes only below Options.CacheDir.
//
// Floor 4: imports world.
package trust
