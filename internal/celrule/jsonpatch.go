package celrule

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

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
	operations, err := operationsOf(m, list)
	if err != nil {
		return nil, err
	}
	text := value.AppendJSON(nil, object)
	if err := m.Step(len(operations) * (1 + len(text)/bytesPerStep)); err != nil {
		return nil, err
	}
	before := len(text)
	text, err = operations.Apply(text)
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
	return out, nil
}

func operationsOf(m *budget.Meter, list traits.Lister) (jsonpatch.Patch, error) {
	var out jsonpatch.Patch
	for it := list.Iterator(); it.HasNext() == types.True; {
		if len(out) == maxOperations {
			return nil, fmt.Errorf("the JSON patch has more than %d operations", maxOperations)
		}
		native, err := it.Next().ConvertToNative(reflect.TypeFor[*mutation.JSONPatchVal]())
		if err != nil {
			return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch: %w", err)
		}
		operation, err := operationOf(m, native.(*mutation.JSONPatchVal))
		if err != nil {
			return nil, err
		}
		out = append(out, operation)
	}
	return out, nil
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
