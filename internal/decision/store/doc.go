// Package store has the stores of decisions other than JSON lines.
//
//	s, err := store.Open("sqlite:/decisions/decisions.db", store.Options{MaxBytes: 1 << 30, MaxAge: 720 * time.Hour, …})
//	err = s.Write(ctx, records)               // decision.Store
//	page, err := s.Page(ctx, query, "", 100)  // decision.Reader, where the store can be read
//
// Each store is one file. A store is bounded by its size and by the age of its records; it deletes the oldest first. A batch is stored
// as a whole or not at all.
//
// Floor 6: imports decision.
package store
