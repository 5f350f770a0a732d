package patch

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/value"
)

// Operation is one operation of a JSON patch (RFC 6902).
type Operation struct {
	Op    string // add, remove, replace, move, copy or test
	Path  string // JSON pointer
	From  string // for move and copy
	Value any    // for add, replace and test
}

// Errors with texts that users of Kyverno know.
var (
	errMissing    = errors.New("missing value")
	errTestFailed = errors.New("test failed")
	errInvalid    = errors.New("invalid state detected")
	errIndex      = errors.New("invalid index referenced")
	errNoObject   = errors.New("invalid value, expected object")
)

// ParseJSONPatch parses a JSON patch from text, a YAML or JSON list of operations.
func ParseJSONPatch(text string) ([]Operation, error) {
	v, err := DecodeText(text)
	if err != nil {
		return nil, err
	}
	return JSONPatchOf(v)
}

// maxYAML bounds the text that is passed to the YAML parser, which takes milliseconds for it.
const maxYAML = 256 << 10

// DecodeText decodes the text of a patch: JSON, or YAML, which is converted to JSON and slower. Numbers are int64 or
// float64. The error is that of the parser, or reports that a YAML text has more than 256 KiB.
func DecodeText(text string) (any, error) {
	if trimmed := strings.TrimSpace(text); strings.HasPrefix(trimmed, "[") {
		if v, err := value.DecodeJSON([]byte(trimmed)); err == nil {
			return v, nil
		}
	}
	if len(text) > maxYAML {
		return nil, fmt.Errorf("the text of the patch has %d bytes; a patch that is not JSON may have %d", len(text), maxYAML)
	}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	return value.DecodeJSON(raw)
}

// JSONPatchOf returns a JSON patch from its decoded form, a list of operations. null is the empty patch.
func JSONPatchOf(v any) ([]Operation, error) {
	list, ok := v.([]any)
	if !ok && v != nil {
		return nil, fmt.Errorf("a JSON patch is a list of operations, found %s", kindName(v))
	}
	out := make([]Operation, len(list))
	for i, e := range list {
		o, err := operationOf(e)
		if err != nil {
			return nil, &OperationError{Op: o.Op, UnknownOp: errors.Is(err, errUnsupported), Operation: e, Err: err}
		}
		out[i] = o
	}
	return out, nil
}

// OperationError is the reason why an operation of a JSON patch is invalid.
type OperationError struct {
	Op        string
	UnknownOp bool
	Operation any // as in the source
	Err       error
}

func (e *OperationError) Error() string {
	return "invalid operation " + value.JSON(e.Operation) + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *OperationError) Unwrap() error { return e.Err }

var errUnsupported = errors.New("unsupported operation")

func kindName(v any) string {
	switch v.(type) {
	case map[string]any:
		return "a map"
	case []any:
		return "a list"
	case nil:
		return "null"
	}
	return "a scalar"
}

func operationOf(v any) (o Operation, err error) {
	m, ok := v.(map[string]any)
	if !ok {
		return o, errUnsupported
	}
	text := func(key string) (string, error) {
		f := m[key]
		if f == nil {
			return "", fmt.Errorf("failed to decode '%s': operation missing %s field: %w", key, key, errMissing)
		}
		s, ok := f.(string)
		if !ok {
			return "", fmt.Errorf("failed to decode '%s': it is not a string", key)
		}
		return s, nil
	}
	o.Op, _ = m["op"].(string)
	switch o.Op {
	case "add", "replace":
		if _, has := m["value"]; !has {
			return o, fmt.Errorf("failed to decode 'value': operation, missing value field: %w", errMissing)
		}
	case "move", "copy":
		if o.From, err = text("from"); err != nil {
			return o, err
		}
	case "remove", "test":
	default:
		return o, errUnsupported
	}
	o.Value = m["value"]
	o.Path, err = text("path")
	return o, err
}

// ApplyJSON applies the operations in order and returns the changed value. It does not modify v, and the result shares
// parts with it and with the values of the operations. Beyond the RFC, `add` creates missing parents, `remove` of a
// missing value is not an error, and negative indexes count from the end.
func ApplyJSON(meter *budget.Meter, v any, ops []Operation) (any, error) {
	return new(Edits).ApplyJSON(meter, v, ops)
}

// ApplyJSON is the function ApplyJSON for one of several patches in a row: it changes what an earlier patch created in
// place instead of copying it again.
func (e *Edits) ApplyJSON(meter *budget.Meter, v any, ops []Operation) (any, error) {
	e.meter = meter
	for i := range ops {
		if err := meter.Step(1 + len(ops[i].Path)); err != nil {
			return nil, err
		}
		var err error
		if v, err = ops[i].apply(e, meter, v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (o *Operation) apply(e *Edits, meter *budget.Meter, doc any) (any, error) {
	switch o.Op {
	case "add":
		return o.add(e, meter, doc)
	case "remove":
		return o.remove(e, doc)
	case "replace":
		return o.replace(e, doc)
	case "move":
		return o.move(e, doc)
	case "copy":
		return o.copy(e, meter, doc)
	case "test":
		return doc, o.test(meter, doc)
	}
	return nil, fmt.Errorf("Unexpected kind: %s", o.Op) //lint:ignore ST1005 the reference's words
}

func (o *Operation) add(e *Edits, meter *budget.Meter, doc any) (any, error) {
	if o.Path == "" {
		return o.whole()
	}
	doc, err := e.ensureParents(meter, doc, o.Path)
	if err != nil {
		return nil, err
	}
	if !reaches(doc, o.Path) {
		return nil, fmt.Errorf("add operation does not apply: doc is missing path: %q: %w", o.Path, errMissing)
	}
	doc, err = e.change(doc, o.Path, func(c any, key string) (any, error) { return e.addTo(c, key, o.Value) })
	if err != nil {
		return nil, fmt.Errorf("error in add for path: '%s': %w", o.Path, err)
	}
	return doc, nil
}

// whole returns the document that replaces the old one.
func (o *Operation) whole() (any, error) {
	if k := kindOf(o.Value); k != mapKind && k != listKind {
		return nil, fmt.Errorf("%s operation value must be object or array", o.Op)
	}
	return o.Value, nil
}

func (o *Operation) remove(e *Edits, doc any) (any, error) {
	if !reaches(doc, o.Path) {
		return doc, nil
	}
	out, err := e.change(doc, o.Path, e.removeFrom)
	if err != nil {
		return nil, fmt.Errorf("error in remove for path: '%s': %w", o.Path, err)
	}
	return out, nil
}

func (o *Operation) replace(e *Edits, doc any) (any, error) {
	if o.Path == "" {
		return o.whole()
	}
	container, key, ok := locate(doc, o.Path)
	if !ok {
		return nil, fmt.Errorf("replace operation does not apply: doc is missing path: %s: %w", o.Path, errMissing)
	}
	if _, err := get(container, key); err != nil {
		return nil, fmt.Errorf("replace operation does not apply: doc is missing key: %s: %w", o.Path, errMissing)
	}
	out, err := e.change(doc, o.Path, func(c any, key string) (any, error) { return e.put(c, key, o.Value) })
	if err != nil {
		return nil, fmt.Errorf("error in remove for path: '%s': %w", o.Path, err) // Kyverno says "remove", too
	}
	return out, nil
}

func (o *Operation) move(e *Edits, doc any) (any, error) {
	if o.From == "" {
		return nil, errors.New("unable to move entire document to another path: invalid state detected")
	}
	container, key, ok := locate(doc, o.From)
	if !ok {
		return nil, fmt.Errorf("move operation does not apply: doc is missing from path: %s: %w", o.From, errMissing)
	}
	v, err := get(container, key)
	if err != nil {
		return nil, fmt.Errorf("error in move for path: '%s': %w", key, err)
	}
	if key == "" {
		e.forget() // the empty key is the container itself, which would contain itself if it were moved in place
	}
	if doc, err = e.change(doc, o.From, e.removeFrom); err != nil {
		return nil, fmt.Errorf("error in move for path: '%s': %w", key, err)
	}
	if !reaches(doc, o.Path) {
		return nil, fmt.Errorf("move operation does not apply: doc is missing destination path: %s: %w", o.Path, errMissing)
	}
	if doc, err = e.change(doc, o.Path, func(c any, key string) (any, error) { return e.addTo(c, key, v) }); err != nil {
		return nil, fmt.Errorf("error in move for path: '%s': %w", o.Path, err)
	}
	return doc, nil
}

func (o *Operation) copy(e *Edits, meter *budget.Meter, doc any) (any, error) {
	container, key, ok := locate(doc, o.From)
	if !ok {
		return nil, fmt.Errorf("copy operation does not apply: doc is missing from path: %q: %w", o.From, errMissing)
	}
	v, err := get(container, key)
	if err != nil {
		return nil, fmt.Errorf("error in copy for from: '%s': %w", o.From, err)
	}
	if !reaches(doc, o.Path) {
		return nil, fmt.Errorf("copy operation does not apply: doc is missing destination path: %s: %w", o.Path, errMissing)
	}
	if err := meter.Text(v); err != nil { // copies of copies double
		return nil, err
	}
	if kindOf(v) != scalarKind {
		e.forget() // the copied value is now in two places
	}
	if doc, err = e.change(doc, o.Path, func(c any, key string) (any, error) { return e.addTo(c, key, v) }); err != nil {
		return nil, fmt.Errorf("error while adding value during copy: %w", err)
	}
	return doc, nil
}

func (o *Operation) test(meter *budget.Meter, doc any) error {
	failed := fmt.Errorf("testing value %s failed: %w", o.Path, errTestFailed)
	if o.Path == "" {
		if equal, err := meter.Equal(doc, o.Value); !equal {
			return cmp.Or(err, failed)
		}
		return nil
	}
	container, key, ok := locate(doc, o.Path)
	if !ok {
		return fmt.Errorf("test operation does not apply: is missing path: %s: %w", o.Path, errMissing)
	}
	v, err := get(container, key)
	if err != nil && !errors.Is(err, errMissing) {
		return fmt.Errorf("error in test for path: '%s': %w", o.Path, err)
	}
	if equal, err := meter.Equal(v, o.Value); !equal {
		return cmp.Or(err, failed)
	}
	return nil
}
