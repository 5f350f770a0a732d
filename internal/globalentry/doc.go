// Package globalentry compiles GlobalContextEntries (kyverno.io, every served version), which define data for policies of the whole
// cluster.
//
//	entry, diags := globalentry.Compile(object)   // unknown fields, the author's mistakes, all at once
//	entry.Resource, entry.Call                    // one of the two says where the data come from
//	v, err := entry.Project(ctx, "names", data)   // what globalReference `entry.names` gives
//
// It fetches nothing: package globalctx does. An entry with mistakes is an error instead of data.
//
// Floor 2: imports leaves.
package globalentry
