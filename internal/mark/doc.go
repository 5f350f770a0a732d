// Package mark creates and reads the mark of a generated object: an annotation that proves that Ephor made the object, by which rule and
// for which trigger.
//
//	text := mark.Make(ring, claim, mark.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "a"})
//	claim, err := mark.Read(ring, text, object) // an error when the mark is not of this object
//
// The labels generate.kyverno.io/* hold the same information, but every user who may write an object can write its labels. A mark is a
// claim in JSON with a seal (package seal) over the claim and the identity of the object: it cannot be created or changed without the key,
// and proves nothing on another object.
//
// The UID of the generated object is not part of it, since the mark is written when the object is created. An object that a user deletes
// and creates again with the same name and mark counts as the generated one: synchronization under that name could do no less to it.
//
// The package reads no keys and no objects, and decides nothing.
//
// Floor 0: imports seal.
package mark
