package clivalues

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"

	"ephor.invalid/ephor/api/cli/v1alpha1"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/strict"
)

// ErrDeprecated is wrapped by the error for a file of the schema that preceded cli.kyverno.io/v1alpha1, which has
// neither apiVersion nor kind.
var ErrDeprecated = errors.New("deprecated schema")

// DecodeDocument fills out, a pointer to one of the types of api/cli, from one document of a file. Every unknown field
// is an error with its line. For a document without apiVersion or kind it returns ErrDeprecated, and out holds the
// fields that could be read.
func DecodeDocument(doc source.Document, out any) (diag.List, error) {
	diags, _, err := decodeDocument(doc, source.Floats, out)
	return diags, err
}

func decodeDocument(doc source.Document, numbers source.Numbers, out any) (diags diag.List, kind string, err error) {
	v, diags := doc.Value(numbers)
	if diags.HasErrors() {
		return diags, "", nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		diags.Add(diag.Diagnostic{Pos: diag.Position{File: doc.File, Line: doc.Line}, Summary: "this document is not an object",
			Hint: "begin it with apiVersion and kind"})
		return diags, "", nil
	}
	found := strict.DecodeFold(m, out)
	position := doc.Positions()
	for i := range found {
		found[i].Pos = position(found[i].Path)
	}
	diags = append(diags, found...)
	apiVersion, _ := m["apiVersion"].(string)
	kind, _ = m["kind"].(string)
	if apiVersion == "" || kind == "" {
		return diags, kind, ErrDeprecated
	}
	return diags, kind, nil
}

// file decodes the only document of a file into out.
func file(path, what string, out any) (diag.List, error) {
	return fileOf(path, what, source.Floats, out)
}

// fileOf is file with a choice of how numbers are decoded.
func fileOf(path, what string, numbers source.Numbers, out any) (diag.List, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return diag.List{{Pos: diag.Position{File: path}, Summary: "cannot read the " + what + " file: " + err.Error(),
			Hint: "check the path"}}, nil
	}
	docs := source.Split(path, string(b))
	if len(docs) != 1 {
		return diag.List{{Pos: diag.Position{File: path}, Summary: fmt.Sprintf("a %s file holds one document, and this one %d", what, len(docs))}}, nil
	}
	diags, kind, err := decodeDocument(docs[0], numbers, out)
	// Many files for Kyverno have the kind Value, which means the same.
	if want := reflect.TypeOf(out).Elem().Name(); err == nil && kind != want && kind+"s" != want && !diags.HasErrors() {
		diags.Add(diag.Diagnostic{
			Severity: diag.Warning, Code: diag.Unchecked, Pos: docs[0].Positions()("kind"), Path: "kind", Hint: "it is read as one",
			Summary: fmt.Sprintf("a %s file has the kind %s, and not %s", what, want, kind),
		})
	}
	return diags, err
}

// ReadValues reads a file of kind Values.
func ReadValues(path string) (*v1alpha1.ValuesSpec, diag.List) {
	var v v1alpha1.Values
	diags, err := file(path, "values", &v)
	if err != nil {
		diags = diag.List{{Pos: diag.Position{File: path}, Hint: "begin it with `apiVersion: cli.kyverno.io/v1alpha1` and `kind: Values`",
			Summary: fmt.Sprintf("failed to decode yaml (values file %s uses a deprecated schema — please migrate to the latest format)", path)}}
	}
	return &v.ValuesSpec, diags
}

// ReadUserInfo reads a file of kind UserInfo. A file of the older schema, which differs only in apiVersion and kind, is
// an error, or a warning if takeOld is set.
func ReadUserInfo(path string, takeOld bool) (*v1alpha1.UserInfo, diag.List) {
	var u v1alpha1.UserInfo
	diags, err := file(path, "user info", &u)
	if err != nil {
		d := diag.Diagnostic{Pos: diag.Position{File: path}, Hint: "begin it with `apiVersion: cli.kyverno.io/v1alpha1` and `kind: UserInfo`",
			Summary: fmt.Sprintf("failed to decode yaml (userinfo file %s uses a deprecated schema — please migrate to the latest format)", path)}
		if takeOld {
			d.Severity = diag.Warning
		}
		diags.Add(d)
	}
	return &u, diags
}

// ReadClusterResource reads a file of kind ClusterResource.
func ReadClusterResource(path string) (*v1alpha1.ClusterResource, diag.List) {
	var c v1alpha1.ClusterResource
	diags, err := file(path, "cluster resource", &c)
	if err != nil {
		diags.Add(diag.Diagnostic{Pos: diag.Position{File: path}, Summary: "Object 'Kind' is missing",
			Hint: "begin it with `apiVersion: cli.kyverno.io/v1alpha1` and `kind: ClusterResource`"})
	}
	return &c, diags
}
