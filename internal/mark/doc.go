// Package mark creates and reads the mark of a generated object: an annotation that proves that Ephor made the object, with which rule and
// for which trigger.
//
//	text := mark.Make(ring, claim, mark.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "a"})
//	claim, err := mark.Read(ring, text, object) // an error when the mark does not belong to this object
//
// The labels generate.kyverno.io/* hold the same information, but every user who may write an object can write its labels. A mark is a
// claim in JSON with a seal (package seal) over the claim and the identity of the object. It cannot be created or changed without the key,
// and it is not valid on another object.
//
// The mark does not cover the UID of the generated object, since the mark is written when the object is created. An object that a user
// deletes and recreates with the same name and mark still counts as generated: without the mark, synchronization would overwrite that name
// in the same way.
//
// The package reads no keys and no objects, and makes no decisions.
//
// An approval of a PolicyException is a seal of another domain, over the exception and the approver (Approval).
//
// Floor 0: imports names, seal and value.
package mark
