// Package origin knows the origin of generated objects: which rule of which policy generated an object, for which trigger, and from which
// source. The background controller reads and writes what shows an origin only here.
//
//	objects := &origin.Objects{Client: c, Keys: keys, Record: origin.New(origin.Options{Client: c, Namespace: "kyverno", Log: log}), …}
//	objects.Stamp(ctx, planned, program, rule, trigger, nil)  // before the object is written: labels and mark
//	objects.Record.Add(entry)                                 // after it was written
//	found, err := objects.Of(ctx, program, rule, origin.Which{})
//	claim, proved, err := objects.Claim(ctx, object)
//
// The origin is one Claim, in three forms with one duty each:
//
//   - The record holds it for each object, by the object's UID, and so proves nothing about another object of the same name. It also lists
//     the rules, with what each of them generates. It also finds objects whose labels and mark were removed.
//   - The labels of Kyverno select objects at the API server. They prove nothing, since every user who may write an object can write them.
//   - The mark (package mark) proves the origin with the object itself: for objects that a replica could not record before it stopped, and
//     for those beyond the bound of the record (Max). They are recorded again when their rule is followed.
//
// The record is stored shortly after each change, in ConfigMaps of the installation's namespace, which only administrators may write. All
// replicas of the background controller write it, and follow the writes of the others. Releases before this one have the same ConfigMaps.
//
// The package does not evaluate rules, and does not decide what to generate or delete.
//
// Floor 7: imports updaterequest and the floors below.
package origin
