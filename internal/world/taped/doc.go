// Package taped records the lookups of the rules of one review, and answers the same lookups from the record later.
//
//	tape := taped.New()                       // for one review
//	world := tape.Root(root).For(reach)       // answers as root does, and takes notes
//	entries := tape.Entries()                 // after the review
//
//	tape := taped.Replay(recorded)            // answers from the record alone
//	world := tape.Root(nil).For(reach)
//	tape.Missing()                            // lookups that are not on the tape
//
// The key of a lookup is its method, the Reach and the canonical request. Parts of a request that may hold credentials (headers, bodies,
// paths and queries of services) are separate from the rest, so that only their digest has to be stored. Errors keep the types that rules
// distinguish. The World of a tape has exactly the members of the World that it wraps. The nil Tape changes nothing.
//
// The package stores nothing and redacts nothing: package decision does that.
//
// Floor 0: imports world and value.
package taped
