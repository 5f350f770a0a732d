package celrule

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/cel-go/common/types/ref"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/value"
)

// Mutation is one compiled mutation.
type Mutation struct {
	expression *run.Expression
	apply      func(m *budget.Meter, made ref.Val, object map[string]any, how Merging) (map[string]any, error)
}

// Merging defines how apply configurations are merged into objects.
type Merging struct {
	// Types define how the lists of known kinds are merged.
	Types managedfields.TypeConverter
	// Atomics: configurations may change lists, maps and structs that the API server treats as one value.
	Atomics bool
}

// Mutations compiles mutations in order. Their expressions, and those compiled after them, can use the types of mutations.
func (c *Compiler) Mutations(in []admissionregistrationv1.Mutation, path string) []Mutation {
	if err := c.env.Mutations(); err != nil {
		c.Diags.Errorf(path, "%v", err)
		return nil
	}
	var out []Mutation
	for i, m := range in {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case m.PatchType == admissionregistrationv1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
			x := c.Expression(m.ApplyConfiguration.Expression, at+".applyConfiguration.expression", typecheck.Object)
			out = append(out, Mutation{x, applyConfiguration})
		case m.PatchType == admissionregistrationv1.PatchTypeJSONPatch && m.JSONPatch != nil:
			x := c.Expression(m.JSONPatch.Expression, at+".jsonPatch.expression", typecheck.JSONPatches)
			out = append(out, Mutation{x, applyPatches})
		default:
			c.Diags.Errorf(at, "patchType is ApplyConfiguration with applyConfiguration, or JSONPatch with jsonPatch")
		}
	}
	return out
}

// Mutate applies one mutation to the object of in and returns the result; it does not change the object of in. Variables are evaluated
// again, since they may depend on the object.
func (r *Rule) Mutate(ctx context.Context, m *budget.Meter, in *run.Input, mutation Mutation, how Merging) (map[string]any, error) {
	object, ok := in.Object.(map[string]any)
	if !ok {
		return nil, errNoObject
	}
	e := begin(ctx, m, r.Named, in, price.Budget)
	made, err := e.Value(mutation.expression)
	size := e.Size(made)
	if err = e.end(err); err != nil {
		return nil, err
	}
	return mutation.on(m, made, size, object, how)
}

// on applies what the expression made, a result of so many values, to the object. The meter is charged.
func (x Mutation) on(m *budget.Meter, made ref.Val, size int, object map[string]any, how Merging) (map[string]any, error) {
	if err := m.Step(stepsPerMade * size); err != nil {
		return nil, err
	}
	if err := m.Walk(object); err != nil { // the mutation reads and writes the whole object
		return nil, err
	}
	out, err := x.apply(m, made, object, how)
	if err != nil {
		return nil, err
	}
	return out, m.Bytes(max(0, value.TextLength(out, maxGrowth)-value.TextLength(object, maxGrowth)))
}

// maxGrowth bounds the measured size of an object: a larger one exceeds every budget.
const maxGrowth = 64 << 20

var errNoObject = errors.New("there is no object to mutate")

// stepsPerMade is the number of steps to check one value of the result of an expression, and to convert it from the library's form.
const stepsPerMade = 32

// stepsPerMerged is the number of steps to merge one value of the object or of the configuration.
const stepsPerMerged = 64

// applyConfiguration merges an Object into the object, as server-side apply does.
func applyConfiguration(m *budget.Meter, made ref.Val, object map[string]any, how Merging) (map[string]any, error) {
	configuration, ok := made.(*dynamic.ObjectVal)
	if !ok {
		return nil, fmt.Errorf("unsupported return type from ApplyConfiguration expression: %v", made.Type())
	}
	if err := configuration.CheckTypeNamesMatchFieldPathNames(); err != nil {
		return nil, fmt.Errorf("type mismatch: %w", err)
	}
	content, ok := configuration.Value().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("invalid return type: %T", made)
	}
	if err := m.Step((stepsPerMerged-stepsPerMade)*values(content) + stepsPerMerged*values(object)); err != nil {
		return nil, err
	}
	before, change := &unstructured.Unstructured{Object: object}, &unstructured.Unstructured{Object: content}
	change.SetGroupVersionKind(before.GroupVersionKind())
	merge := patch.ApplyStructuredMergeDiff
	if how.Atomics {
		merge = mergeAtomics
	}
	patched, err := merge(how.Types, before, change)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: %w", err)
	}
	u, ok := patched.(*unstructured.Unstructured)
	if !ok {
		return nil, errors.New("the mutation does not give an object")
	}
	return u.Object, nil
}

// mergeAtomics merges as ApplyStructuredMergeDiff does, but without its check that no atomic value is changed. Its error texts are the
// library's.
func mergeAtomics(types managedfields.TypeConverter, object runtime.Object, change *unstructured.Unstructured) (runtime.Object, error) {
	typedChange, err := types.ObjectToTyped(change)
	if err != nil {
		return nil, fmt.Errorf("failed to convert patch object to typed object: %w", err)
	}
	typedObject, err := types.ObjectToTyped(object, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("failed to convert original object to typed object: %w", err)
	}
	merged, err := typedObject.Merge(typedChange)
	if err != nil {
		return nil, fmt.Errorf("failed to merge patch: %w", err)
	}
	return types.TypedToObject(merged)
}
