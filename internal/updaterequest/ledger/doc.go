// Package ledger keeps the record of generated objects: which rule of which policy generated an object, for which trigger, and from
// which source.
//
//	l := ledger.New(ledger.Options{Client: c, Namespace: "kyverno", Log: log})
//	l.Note(ledger.Entry{Claim: claim, Object: object})     // as soon as the object is written
//	l.OfRule(ledger.Rule{ID: id, Name: "r"})               // also finds objects whose labels and mark were removed
//
// A mark (package mark) proves the same as an entry, but it is stored on the object, where every user who may write the object can
// remove it. An entry identifies the object by its UID, so that it proves nothing about another object of the same name.
//
// The record is stored shortly after each change, in ConfigMaps of the installation's namespace, which only administrators may write. It
// is a second proof: objects that a replica could not store before it stopped still have their marks, and are recorded again when their
// rule is followed. All replicas of the background controller write the record, and follow the writes of the others. Its size is limited
// (Max); for further objects the marks are the only proof.
//
// Floor 7: imports the floors below and updaterequest.
package ledger
