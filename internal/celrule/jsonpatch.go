package celrule

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/value"
)

// The API server's limits for one JSON patch: the number of operations, and the total bytes of copies.
const (
	maxOperations = 10_000
	maxCopied     = 3 << 20
)

// init sets the limit of copies, which the library supports only for the whole process. The API server sets it in the same way.
// Without it, copies of copies grow without bound.
func init() {
	jsonpatch.AccumulatedCopySizeLimit = maxCopied
}

// bytesPerStep is the number of bytes of the object that one operation copies in a step. The library copies a whole list to add
// an item.
const bytesPerStep = 32

// applyPatches applies a list of JSONPatch, as the API server does. If an operation test fails, the object does not change.
func applyPatches(m *budget.Meter, made ref.Val, object map[string]any, _ Merging) (map[string]any, error) {
	list, ok := made.(traits.Lister)
	if !ok {
		return nil, errors.New("type mismatch: JSONPatchType.expression should evaluate to array")
	}
	operations, named, err := operationsOf(m, list)
	if err != nil {
		return nil, err
	}
	return apply(m, operations, &named, object)
}

// apply applies operations to the members of the object that they name. The meter is charged for the text that the library reads and writes,
// and for the copies.
func apply(m *budget.Meter, operations jsonpatch.Patch, named *members, object map[string]any) (map[string]any, error) {
	read, rest := named.split(object)
	text := value.AppendJSON(nil, read)
	if err := m.Step(len(text) + len(operations)*(1+len(text)/bytesPerStep)); err != nil {
		return nil, err
	}
	if err := m.Step(named.copies.bound(read, len(text))); err != nil {
		return nil, err
	}
	before := len(text)
	text, err := operations.Apply(text)
	switch {
	case errors.Is(err, jsonpatch.ErrTestFailed):
		return object, nil
	case err != nil:
		return nil, fmt.Errorf("JSON Patch: %w", err)
	}
	if err := m.Step(max(0, len(text)-before)); err != nil {
		return nil, err
	}
	v, err := value.DecodeJSON(text)
	if err != nil {
		return nil, err
	}
	out, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("JSON Patch: the result is not an object")
	}
	maps.Copy(out, rest)
	return out, nil
}

// members are the members of an object that the paths of a patch name, and the operations for the price of their copies.
type members struct {
	names  map[string]bool
	all    bool // a path may name any
	copies copies
}

// add adds the member that a path, as the library reads it, names.
func (n *members) add(path string) {
	parts := strings.SplitN(path, "/", 3)
	if len(parts) < 2 || strings.Contains(parts[1], "~") {
		n.all = true
		return
	}
	n.names[parts[1]] = true
}

// split returns the members of an object that a patch names, and the rest, which it neither reads nor changes. The library converts all that it
// is given to text and back, so that a label would cost as much as the whole object.
func (n *members) split(object map[string]any) (read, rest map[string]any) {
	if n.all {
		return object, nil
	}
	read, rest = map[string]any{}, map[string]any{}
	for k, v := range object {
		if n.names[k] {
			read[k] = v
		} else {
			rest[k] = v
		}
	}
	return read, rest
}

// operationsOf returns the operations of a list of JSONPatch, and what they name and copy.
func operationsOf(m *budget.Meter, list traits.Lister) (jsonpatch.Patch, members, error) {
	var out jsonpatch.Patch
	named := members{names: map[string]bool{}}
	for it := list.Iterator(); it.HasNext() == types.True; {
		if len(out) == maxOperations {
			return nil, named, fmt.Errorf("the JSON patch has more than %d operations", maxOperations)
		}
		native, err := it.Next().ConvertToNative(reflect.TypeFor[*mutation.JSONPatchVal]())
		if err != nil {
			return nil, named, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch: %w", err)
		}
		in := native.(*mutation.JSONPatchVal)
		operation, err := operationOf(m, in)
		if err != nil {
			return nil, named, err
		}
		if named.add(in.Path); in.From != "" {
			named.add(in.From)
		}
		grows := 0
		if raw := operation["value"]; raw != nil {
			grows = len(*raw)
		}
		named.copies = append(named.copies, change{in.Op, in.Path, in.From, grows})
		out = append(out, operation)
	}
	return out, named, nil
}

// stepsPerValue is the number of steps to create and write one value of the library's JSON.
const stepsPerValue = 32

func operationOf(m *budget.Meter, in *mutation.JSONPatchVal) (jsonpatch.Operation, error) {
	text := func(s string) *json.RawMessage {
		raw := json.RawMessage(value.JSON(s))
		return &raw
	}
	out := jsonpatch.Operation{"op": text(in.Op), "path": text(in.Path)}
	if in.From != "" {
		out["from"] = text(in.From)
	}
	if in.Val == nil {
		return out, nil
	}
	if object, ok := in.Val.(*dynamic.ObjectVal); ok {
		if err := object.CheckTypeNamesMatchFieldPathNames(); err != nil {
			return nil, fmt.Errorf("type mismatch: %w", err)
		}
	}
	// A list or map of the object is charged before it is converted; package cel/run bounds the values that an expression
	// creates.
	ofObject, isOfObject := in.Val.Value(), false
	switch ofObject.(type) {
	case map[string]any, []any:
		isOfObject = true
		if err := m.Step(stepsPerValue * values(ofObject)); err != nil {
			return nil, err
		}
	}
	v, err := in.Val.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	var raw json.RawMessage
	if err == nil {
		if made, ok := v.(*structpb.Value); ok && !isOfObject {
			if err := m.Step(stepsPerValue * valuesOf(made)); err != nil {
				return nil, err
			}
		}
		raw, err = json.Marshal(v)
	}
	if err == nil {
		if err := m.Bytes(len(raw)); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
	}
	out["value"] = &raw
	return out, nil
}

// values counts the values in decoded JSON.
func values(v any) int {
	n := 1
	switch x := v.(type) {
	case map[string]any:
		for _, e := range x {
			n += values(e)
		}
	case []any:
		for _, e := range x {
			n += values(e)
		}
	}
	return n
}

// valuesOf counts the values in the library's JSON.
func valuesOf(v *structpb.Value) int {
	n := 1
	for _, e := range v.GetStructValue().GetFields() {
		n += valuesOf(e)
	}
	for _, e := range v.GetListValue().GetValues() {
		n += valuesOf(e)
	}
	return n
}
