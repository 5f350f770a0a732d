// Package value is the one JSON representation of Ephor: trees of map[string]any, []any, string, bool, nil, int64 and
// float64, immutable by agreement.
//
//	v, err := value.DecodeJSON([]byte(`{"replicas": 3}`)) // map[string]any{"replicas": int64(3)}
//	doc := value.FromJSON(raw)                            // decoded on first use, once
//	fmt.Println(value.JSON(v))                            // {"replicas":3}
//
// Decoding stands on the path of every admission request, so it is hand-written: strings without escapes are cut out of
// one copy of the input, and maps and lists are made in their final size. A decoded tree therefore keeps the text of its
// whole document alive; who keeps one small string of a large document for long clones it (strings.Clone).
//
// Numbers follow apimachinery: an int64 where the literal has neither fraction nor exponent and fits, else a float64.
// DecodeJSONFloat makes every number a float64, as the command line does with resources.
//
// The package does not convert to or from typed structs, does not read YAML and does not change values.
//
// Floor 0 (leaf): imports nothing of ours.
package value
