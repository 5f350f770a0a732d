// Package decisions records the reviews of a process, and keeps the store of them: flags, certificates and rows.
//
//	feed, rows, err := f.Record(process, keys)    // admission: the records, and the row that renews the certificate for sending them
//	reader, rows, err := f.OpenStore(process)     // reports: the store, and the rows that receive records
//
// Package decision has the records and the stores.
//
// Floor 8: imports the floors below.
package decisions
