package rule

import (
	"errors"
	"fmt"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/patch"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/template"
)

var mutateJSONPatch = &Kind{
	Name:  "mutate.patchesJson6902",
	Stage: policy.StageMutate,
	Doc: "Applies the operations of a JSON patch (RFC 6902), a YAML or JSON list in a string. " +
		"Adding a value creates missing parents, and removing a missing value is not an error.",
	Owns:         func(r *kyvernov1.Rule) bool { return r.Mutation != nil && r.Mutation.PatchesJSON6902 != "" },
	skipOnDelete: true,
	compile: func(c *compiler, r *kyvernov1.Rule) handler {
		p := c.jsonPatch(r.Mutation.PatchesJSON6902, c.in.Path+".mutate.patchesJson6902", "/mutate/patchesJson6902")
		if p == nil {
			return c.mutation(r, nil, yieldNoPatches)
		}
		return c.mutation(r, p.once, yieldNoPatches)
	},
}

// editor patches an object in one of several consecutive patches. It may change earlier edits in place (patch.Edits).
type editor func(edits *patch.Edits, s *scope.Scope, object any) (any, error)

// once returns the patcher of a single patch.
func (e editor) once(s *scope.Scope, object any) (any, error) { return e(new(patch.Edits), s, object) }

// jsonPatch compiles a patchesJson6902 to an editor. It returns nil if that is malformed. The text is decoded once, at compile time,
// and the values of its variables are inserted into the tree, so that a value cannot add an operation. The exception is a patch that
// consists of a single variable, whose value provides the operations, as a list or as text.
func (c *compiler) jsonPatch(text, path, errorPath string) editor {
	t, err := template.CompileDocument(text, template.Document{
		Options: template.Options{Path: errorPath, Allowance: c.in.Allowance}, Decode: patch.DecodeText, Scalar: scalarInPatch,
	})
	if err != nil {
		c.diags.Errorf(path, "%s", jsonPatchMistake(c.in.Path, err))
		if strings.Contains(text, "{{") {
			c.diags.Hint("a variable stands for a value, or for a part of a text: write it without quotes, or within a text, and write the list of operations out")
		}
		return nil
	}
	c.noted(t, path)
	if static, ok := t.Static(); ok {
		ops, err := patch.JSONPatchOf(static)
		if err != nil {
			c.diags.Errorf(path, "%s", jsonPatchMistake(c.in.Path, err))
			return nil
		}
		for _, o := range ops {
			if o.Path != "" && !strings.HasPrefix(o.Path, "/") {
				c.diags.Errorf(path, "path must begin with a forward slash: %s: %s", c.in.Path, o.Path)
				c.diags.Hint("write /%s, with / between the fields instead of dots", strings.ReplaceAll(o.Path, ".", "/"))
			}
		}
		return func(edits *patch.Edits, s *scope.Scope, object any) (any, error) {
			return applyJSON(edits, s, ops, object)
		}
	}
	whole := strings.HasPrefix(strings.TrimSpace(text), "{{")
	return func(edits *patch.Edits, s *scope.Scope, object any) (any, error) {
		v, err := substitute(t, s)
		if err != nil {
			return nil, err
		}
		var ops []patch.Operation
		if made, ok := v.(string); ok && whole {
			ops, err = patch.ParseJSONPatch(made)
		} else {
			ops, err = patch.JSONPatchOf(v)
		}
		if err != nil {
			return nil, patchError{textPatchError, err}
		}
		return applyJSON(edits, s, ops, object)
	}
}

// scalarInPatch reports whether the value at a path in a patch must be a scalar, as for operators and paths.
func scalarInPatch(at []any) bool {
	return len(at) == 2 && (at[1] == "op" || at[1] == "path" || at[1] == "from")
}

// jsonPatchMistake returns the message for a malformed patch.
func jsonPatchMistake(rulePath string, err error) string {
	if unknown := (*patch.OperationError)(nil); errors.As(err, &unknown) {
		if unknown.UnknownOp {
			return fmt.Sprintf("unexpected kind: %s: %s", rulePath, unknown.Op)
		}
		return fmt.Sprintf("invalid value: %s: %v", rulePath, unknown.Err)
	}
	return err.Error()
}

func applyJSON(edits *patch.Edits, s *scope.Scope, ops []patch.Operation, object any) (any, error) {
	out, err := edits.ApplyJSON(s.Env.Meter, object, ops)
	if err != nil {
		return nil, patchError{textPatchError, err}
	}
	return out, nil
}
