// Package generated follows the record of generated objects, the objects themselves, and the sources of copies.
//
//	record, err := generated.NewRecord(ctx, config, namespace, client, log)
//	rows := record.Rows(follower, catalog)
//
// Packages updaterequest/origin and updaterequest/follow do the work.
//
// Floor 8: imports the floors below.
package generated
