package celenv

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Result is a type that the value of an expression may have.
type Result uint8

// The types of results. Dyn is the type of values that depend only on the object, such as its fields; Any allows all types. Object and
// JSONPatches are the types of mutations, Strings and Dyns are lists, HTTPResponse and EnvoyResponse are answers to check requests, and Map
// is any map with texts as keys.
const (
	Bool Result = iota
	String
	Null
	Dyn
	Any
	Object
	JSONPatches
	Strings
	Dyns
	HTTPResponse
	EnvoyResponse
	Map
)

var resultTypes = [...]*cel.Type{
	Bool: cel.BoolType, String: cel.StringType, Null: cel.NullType, Dyn: cel.DynType, Any: cel.AnyType,
	Object: objectType, JSONPatches: jsonPatchList, Strings: cel.ListType(cel.StringType), Dyns: cel.ListType(cel.DynType),
	HTTPResponse: httpResponse, EnvoyResponse: envoyResponse,
	Map: mapResult,
}

var mapResult = cel.MapType(cel.StringType, cel.AnyType)

// typeWords formats the error for a wrong type.
type typeWords func(wanted []*cel.Type, got *cel.Type) error

// wordsOf returns the function for the API server's text, or for Kyverno's.
func wordsOf(k Kind) typeWords {
	if k == Native {
		return serverWords
	}
	return func(wanted []*cel.Type, _ *cel.Type) error {
		if response := wanted[0]; response == httpResponse || response == envoyResponse { // the answer may also be null
			return fmt.Errorf("rule response output is expected to be of type %s", response.TypeName())
		}
		if wanted[0] == mapResult {
			return errors.New("output type must be a map")
		}
		if len(wanted) == 1 {
			return fmt.Errorf("output is expected to be of type %s", wanted[0].TypeName())
		}
		names := make([]string, len(wanted))
		for i, t := range wanted {
			if names[i] = t.TypeName(); len(t.Parameters()) > 0 {
				names[i] = t.String()
			}
		}
		return fmt.Errorf("output is expected to be either of type %s", strings.Join(names, " or "))
	}
}

func serverWords(wanted []*cel.Type, got *cel.Type) error {
	if len(wanted) == 1 {
		return fmt.Errorf("must evaluate to %v but got %v", wanted[0].String(), got.String())
	}
	return fmt.Errorf("must evaluate to one of %v but got %v", wanted, got.String())
}

// hasType returns an error if an output type is none of the results, in the words for the kind.
func hasType(k Kind, output *cel.Type, results ...Result) error {
	wanted := make([]*cel.Type, len(results))
	for i, r := range results {
		wanted[i] = resultTypes[r]
		if output.IsExactType(wanted[i]) || cel.AnyType.IsExactType(wanted[i]) {
			return nil
		}
		if wanted[i] == mapResult && output.Kind() == types.MapKind && output.Parameters()[0].IsAssignableType(cel.StringType) {
			return nil
		}
	}
	return wordsOf(k)(wanted, output)
}

var declTypes = map[*cel.Type]*apiservercel.DeclType{
	cel.AnyType: apiservercel.AnyType, cel.BoolType: apiservercel.BoolType, cel.BytesType: apiservercel.BytesType,
	cel.DoubleType: apiservercel.DoubleType, cel.DurationType: apiservercel.DurationType, cel.IntType: apiservercel.IntType,
	cel.NullType: apiservercel.NullType, cel.StringType: apiservercel.StringType,
	cel.TimestampType: apiservercel.TimestampType, cel.UintType: apiservercel.UintType,
}

// declType returns the type of a variable for the expressions that use it. A type that cannot be declared, or is nested too deeply, becomes
// dyn.
func declType(t *cel.Type) *apiservercel.DeclType {
	if t == nil || typeNesting(t) > maxTypeNesting {
		return apiservercel.DynType
	}
	if d := declTypes[t]; d != nil {
		return d
	}
	if t.HasTrait(traits.ContainerType) && t.HasTrait(traits.IndexerType) {
		switch p := t.Parameters(); len(p) {
		case 1:
			return apiservercel.NewListType(declType(p[0]), -1)
		case 2:
			return apiservercel.NewMapType(declType(p[0]), declType(p[1]), -1)
		}
	}
	return apiservercel.DynType
}
