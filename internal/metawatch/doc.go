// Package metawatch follows the metadata of the objects of one resource: it lists them, watches them, and lists them again when the
// watch is lost.
//
//	metawatch.Follow(ctx, client.Resource(gvr), metav1.ListOptions{}, metawatch.Handler{Seen: seen, Gone: gone, Listed: listed, Failed: failed})
//
// It stores nothing: callers store the objects that they need.
//
// Floor 4: imports nothing of ours.
package metawatch
