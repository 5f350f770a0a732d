// Package store has the stores of decisions other than JSON lines.
//
//	s, err := store.Open("sqlite:/decisions/decisions.db", store.Options{MaxBytes: 1 << 30, MaxAge: 720 * time.Hour, …})
//	err = s.Write(ctx, records)               // decision.Store
//	page, err := s.Page(ctx, query, "", 100)  // decision.Reader, where the store can be read
//
// Each store is a row of the table in open.go. A store is bounded by its size and by the age of its records; it deletes the oldest first. A batch is
// stored as a whole or not at all.
//
// The stores that can be read use database/sql. They have in common how rows are read and transactions are run (sql.go), the batches that are stored once
// (batches.go), the requests and their bodies (bodies.go), the order of an erasure (erase.go), and their tests (stores_test.go). Their tables differ, for
// three reasons:
//
//   - A file is bounded by its size. So values that decisions share are stored once (split.go), and queries select by the ids of these values: a decision
//     with the results of 18 policies takes 145 bytes of a file. In the tables of PostgreSQL it would take 1,445 bytes of a file, 435 if records were
//     compressed with a dictionary, and 340 more with an index of policies.
//   - A database has many writers. A shared value would be a row that all of them write, under a lock, after a round trip for its id. A file has one writer, which
//     keeps the ids in memory.
//   - Stores are in the field. A program refuses a store whose version it does not know, so new tables in either store would stop the replicas of the
//     version before, which write to the database during an upgrade, and a downgrade could not read its file.
//
// Floor 6: imports decision.
package store
