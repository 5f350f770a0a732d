// Package globalentry compiles GlobalContextEntries (kyverno.io, every served version), which define data for policies of the whole
// cluster.
//
//	entry, diags := globalentry.Compile(object)   // unknown fields and the author's mistakes, all at once
//	entry.Resource, entry.Call                    // one of them is set: the source of the data
//	v, err := entry.Project(ctx, "names", data)   // the value of globalReference `entry.names`
//
// It fetches no data: package globalctx does. An entry with mistakes gives an error instead of data.
//
// Floor 2: imports leaves.
package globalentry
