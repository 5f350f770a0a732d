package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/decision"
)

const module = "ephor.invalid/ephor/"

// types describes Go types as schemas. The comments of their declarations are the descriptions.
type types struct {
	comments map[string]map[string]string // package path → comments, by Type and Type.Field
}

// schema returns the schema of a type, in the form in which encoding/json writes its values.
func (d *types) schema(t reflect.Type) (apiextensionsv1.JSONSchemaProps, error) {
	switch t {
	case reflect.TypeFor[time.Time]():
		return apiextensionsv1.JSONSchemaProps{Type: "string", Format: "date-time"}, nil
	case reflect.TypeFor[[]byte]():
		return apiextensionsv1.JSONSchemaProps{Type: "string", Format: "byte"}, nil
	case reflect.TypeFor[metav1.ObjectMeta](), reflect.TypeFor[corev1.Namespace]():
		return apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}, nil
	case reflect.TypeFor[decision.Verdict]():
		out := apiextensionsv1.JSONSchemaProps{Type: "string"}
		for _, v := range decision.Verdicts {
			out.Enum = append(out.Enum, apiextensionsv1.JSON{Raw: []byte(`"` + string(v) + `"`)})
		}
		return out, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.schema(t.Elem())
	case reflect.Interface:
		return apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: new(true)}, nil
	case reflect.String:
		return apiextensionsv1.JSONSchemaProps{Type: "string"}, nil
	case reflect.Bool:
		return apiextensionsv1.JSONSchemaProps{Type: "boolean"}, nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		return apiextensionsv1.JSONSchemaProps{Type: "integer"}, nil
	case reflect.Float64:
		return apiextensionsv1.JSONSchemaProps{Type: "number"}, nil
	case reflect.Slice:
		items, err := d.schema(t.Elem())
		return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}}, err
	case reflect.Map:
		values, err := d.schema(t.Elem())
		return apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &values}}, err
	case reflect.Struct:
		out := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
		return out, d.fields(t, &out)
	}
	return apiextensionsv1.JSONSchemaProps{}, fmt.Errorf("values of the Go type %s have no schema", t)
}

// fields adds the fields of a struct to a schema.
func (d *types) fields(t reflect.Type, out *apiextensionsv1.JSONSchemaProps) error {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
			continue
		case f.Type == reflect.TypeFor[metav1.TypeMeta]():
			for _, name := range []string{"apiVersion", "kind"} {
				out.Properties[name] = apiextensionsv1.JSONSchemaProps{Type: "string"}
				out.Required = append(out.Required, name)
			}
			continue
		case name == "":
			if err := d.fields(f.Type, out); err != nil {
				return err
			}
			continue
		}
		s, err := d.schema(f.Type)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
		if s.Description, err = d.comment(t, f, name); err != nil {
			return err
		}
		out.Properties[name] = s
		if strings.HasPrefix(t.PkgPath(), module) && !strings.Contains(options, "omitempty") {
			out.Required = append(out.Required, name)
		}
	}
	slices.Sort(out.Required)
	return nil
}

// comment returns the comment of a field. Types of Kubernetes carry theirs.
func (d *types) comment(t reflect.Type, f reflect.StructField, name string) (string, error) {
	if f.Type == reflect.TypeFor[metav1.ObjectMeta]() {
		return "The name. The other metadata are not read.", nil
	}
	if swagger, ok := reflect.Zero(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		return swagger.SwaggerDoc()[name], nil
	}
	dir, own := strings.CutPrefix(t.PkgPath(), module)
	if !own {
		return "", fmt.Errorf("%s has no comments that this program can read", t)
	}
	if err := d.read(dir); err != nil {
		return "", err
	}
	text := d.comments[dir][t.Name()+"."+f.Name]
	if text == "" {
		return "", fmt.Errorf("%s.%s has no comment: the reference describes each field", t, f.Name)
	}
	return text, nil
}

// ofType returns the comment of a type of ours.
func (d *types) ofType(t reflect.Type) (string, error) {
	dir := strings.TrimPrefix(t.PkgPath(), module)
	return d.comments[dir][t.Name()], d.read(dir)
}

// read reads the comments of a package.
func (d *types) read(dir string) error {
	if d.comments[dir] != nil {
		return nil
	}
	comments := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			declaration, ok := n.(*ast.GenDecl)
			if !ok {
				return true
			}
			for _, s := range declaration.Specs {
				spec, ok := s.(*ast.TypeSpec)
				if !ok {
					continue
				}
				comments[spec.Name.Name] = oneParagraph(declaration.Doc)
				fields, ok := spec.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, f := range fields.Fields.List {
					for _, name := range f.Names {
						comments[spec.Name.Name+"."+name.Name] = oneParagraph(f.Doc)
					}
				}
			}
			return false
		})
	}
	d.comments[dir] = comments
	return nil
}

func oneParagraph(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
