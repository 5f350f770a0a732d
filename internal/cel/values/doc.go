// Package values holds the values of CEL expressions that are not cel-go's own, and converts between them and decoded JSON.
//
//	v := values.JSON.NativeToValue(object) // without a copy: a Map is the decoded map itself
//	plain, err := values.Plain(v)          // what objects consist of
//	shown, err := values.Decode(v, values.MaxNesting)
//
// A Shape is the type of a message: a document with known fields, such as a check request of Envoy. Opaque is what types of libraries have in
// common, and a Record is a value with named texts.
//
// Floor 0 (leaf): imports value.
package values
