package taped

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/value"
)

// Text is the JSON text of an answer. Numbers keep their type: a float64 is written with a fraction or an exponent.
func Text(answer any) (string, error) {
	switch answer.(type) {
	case nil, string, bool, int64, float64, map[string]any, []any, []map[string]any:
		return string(appendExact(nil, answer)), nil
	}
	if a, ok := answer.(encoder); ok {
		return string(appendExact(nil, a.JSON())), nil
	}
	raw, err := json.Marshal(answer)
	return string(raw), err
}

// encoder is an answer that contains JSON values. decoder is its counterpart.
type (
	encoder interface{ JSON() any }
	decoder interface{ FromJSON(any) bool }
)

func appendExact(dst []byte, v any) []byte {
	switch x := v.(type) {
	case float64:
		text := value.JSON(x)
		if !strings.ContainsAny(text, ".en") { // neither a fraction, nor an exponent, nor null
			text += ".0"
		}
		return append(dst, text...)
	case map[string]any:
		if x == nil {
			return append(dst, "null"...)
		}
		dst = append(dst, '{')
		for i, k := range slices.Sorted(maps.Keys(x)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(value.AppendJSON(dst, k), ':')
			dst = appendExact(dst, x[k])
		}
		return append(dst, '}')
	case []any:
		return appendList(dst, x)
	case []map[string]any:
		return appendList(dst, x)
	}
	return value.AppendJSON(dst, v)
}

func appendList[T any](dst []byte, list []T) []byte {
	if list == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, e := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendExact(dst, e)
	}
	return append(dst, ']')
}

// decode reads an answer into a pointer.
func decode(text []byte, out any) error {
	switch out.(type) {
	case *any, *map[string]any, *[]map[string]any, decoder:
	default:
		return json.Unmarshal(text, out)
	}
	v, err := value.DecodeJSON(text)
	if err != nil {
		return err
	}
	fits := true
	switch to := out.(type) {
	case *any:
		*to = v
	case *map[string]any:
		if v != nil {
			*to, fits = v.(map[string]any)
		}
	case *[]map[string]any:
		if v == nil {
			break
		}
		var items []any
		items, fits = v.([]any)
		*to = make([]map[string]any, len(items))
		for i := range items {
			o, ok := items[i].(map[string]any)
			(*to)[i], fits = o, fits && ok
		}
	case decoder:
		fits = to.FromJSON(v)
	}
	if !fits {
		return fmt.Errorf("the recorded answer has another form: %s", strconv.Quote(value.Clip(string(text), 40)))
	}
	return nil
}
