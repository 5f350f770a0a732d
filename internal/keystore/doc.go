// Package keystore stores the keys of package seal in a Secret in the installation's namespace.
//
//	store := &keystore.Store{Client: client, Reader: live, Namespace: "kyverno", Name: keystore.Marks}
//	ring, err := store.Load(ctx)    // creates the Secret when it does not exist
//	ring, err = store.Rotate(ctx)   // a new current key; the old ones stay and still verify
//	keys := keystore.NewCached(client, live, "kyverno", keystore.Marks) // for processes that seal and check all the time
//
// The Secret is created at run time, never by the chart: a key in a rendered manifest would end up in Git and in Helm's release history.
// Several replicas may call Load at once: the API server accepts one Secret, and the others read it. A Secret without a usable key is an
// error and is not overwritten, since that would invalidate the seals made with its keys.
//
// Floor 4: imports seal.
package keystore
