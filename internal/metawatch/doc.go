// Package metawatch follows the metadata of the objects of one resource: it lists them, watches them, and lists again when the watch
// is lost.
//
//	metawatch.Follow(ctx, client.Resource(gvr), metav1.ListOptions{}, metawatch.Handler{Seen: seen, Gone: gone, Listed: listed, Failed: failed})
//
// It stores nothing: a caller that needs some of the objects stores them.
//
// Floor 4: imports nothing of ours.
package metawatch
