// Package value is the only JSON representation in Ephor: trees of map[string]any, []any, string, bool, nil, int64 and float64, immutable
// by convention.
//
//	v, err := value.DecodeJSON([]byte(`{"replicas": 3}`)) // map[string]any{"replicas": int64(3)}
//	doc := value.FromJSON(raw)                            // decoded on first use, once
//	fmt.Println(value.JSON(v))                            // {"replicas":3}
//
// Every admission request is decoded, so the decoder is hand-written: strings without escapes are slices of one copy of the input, and maps
// and lists are allocated in their final size. A decoded tree therefore keeps the text of its whole document alive; clone (strings.Clone) a
// small string that outlives a large document.
//
// Numbers follow apimachinery: an int64 if the literal has neither fraction nor exponent and fits, otherwise a float64. DecodeJSONFloat
// makes every number a float64, as the command line does with resources.
//
// DecodeYAML is for the functions of the languages that parse a text. The package does not convert to or from typed structs and does not
// change values.
//
// Floor 0 (leaf): imports nothing of ours.
package value
