// Package ledger keeps the record of generated objects: which object was made by which rule of which policy, for which trigger, and from
// which source.
//
//	l := ledger.New(ledger.Options{Client: c, Namespace: "kyverno", Log: log})
//	l.Note(ledger.Entry{Claim: claim, Object: object})     // as soon as the object is written
//	l.OfRule(ledger.Rule{ID: id, Name: "r"})               // also when its users took its labels and its mark away
//
// A mark (package mark) proves the same as an entry, but it is on the object, where every user who may write the object can remove it.
// An entry names the object by its UID, so that it proves nothing of another object of the same name.
//
// The record is stored in ConfigMaps of the installation's namespace, which only administrators may write, a moment after it changes. It
// is a second proof: what a replica could not store before it stopped is still marked, and noted again when its rule is followed. All
// replicas of the background controller write it, and follow what the others write. It is bounded (Max); beyond that only marks
// prove what was made.
//
// Floor 7: imports the floors below and updaterequest.
package ledger
