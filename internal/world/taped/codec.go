package taped

import (
	"encoding/json"
	"fmt"
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
		return string(appendExact(nil, a.encode())), nil
	}
	raw, err := json.Marshal(answer)
	return string(raw), err
}

// encoder is an answer that contains JSON values. decoder is its counterpart.
type (
	encoder interface{ encode() any }
	decoder interface{ decode(any) bool }
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
		for i, k := range sortedKeys(x) {
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

// decode reads an answer of a type.
func decode[T any](text []byte) (out T, err error) {
	unfit := func() (T, error) {
		return out, fmt.Errorf("the recorded answer has another form: %s", strconv.Quote(value.Clip(string(text), 40)))
	}
	switch to := any(&out).(type) {
	case *any:
		*to, err = value.DecodeJSON(text)
		return out, err
	case *map[string]any:
		v, err := value.DecodeJSON(text)
		if err != nil || v == nil {
			return out, err
		}
		var ok bool
		if *to, ok = v.(map[string]any); !ok {
			return unfit()
		}
		return out, nil
	case *[]map[string]any:
		v, err := value.DecodeJSON(text)
		if err != nil || v == nil {
			return out, err
		}
		items, ok := v.([]any)
		if !ok {
			return unfit()
		}
		*to = make([]map[string]any, len(items))
		for i, item := range items {
			if (*to)[i], ok = item.(map[string]any); !ok {
				return unfit()
			}
		}
		return out, nil
	case decoder:
		v, err := value.DecodeJSON(text)
		if err != nil {
			return out, err
		}
		if !to.decode(v) {
			return unfit()
		}
		return out, nil
	}
	err = json.Unmarshal(text, &out)
	return out, err
}
