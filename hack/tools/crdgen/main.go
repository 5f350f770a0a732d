// Crdgen writes the CustomResourceDefinitions of Go API packages: controller-gen's generator, with two additional
// markers for constraints between fields of a type, which become structural schema and so cost the API server no CEL
// budget.
//
//	crdgen -out config/crds ./api/...
//
//	// +ephor:exactlyOneOf=a;b     exactly one of the fields must be set
//	// +ephor:notTogether=a;b      not all of the fields may be set together
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

func main() {
	out := flag.String("out", "config/crds", "directory that the CRDs are written to")
	flag.Parse()
	if err := run(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "crdgen:", err)
		os.Exit(1)
	}
}

func run(out string, packages []string) error {
	var generator genall.Generator = generator{}
	runtime, err := genall.Generators{&generator}.ForRoots(packages...)
	if err != nil {
		return fmt.Errorf("loading %v: %w", packages, err)
	}
	runtime.OutputRules = genall.OutputRules{Default: withoutVersion{genall.OutputToDirectory(out)}}
	if failed := runtime.Run(); failed {
		return fmt.Errorf("some packages have mistakes (see above)")
	}
	return nil
}

// generator is controller-gen's CRD generator with the markers of this package.
type generator struct{ crd.Generator }

func (g generator) RegisterMarkers(into *markers.Registry) error {
	if err := g.Generator.RegisterMarkers(into); err != nil {
		return err
	}
	for name, value := range map[string]any{
		"ephor:exactlyOneOf": exactlyOneOf(nil),
		"ephor:notTogether":  notTogether(nil),
	} {
		definition, err := markers.MakeDefinition(name, markers.DescribesType, value)
		if err != nil {
			return err
		}
		if err := into.Register(definition); err != nil {
			return err
		}
	}
	return nil
}

// withoutVersion omits the annotation with the generator's version: that of this program depends on the commit from
// which it was built, and would change the output with every commit.
type withoutVersion struct{ genall.OutputRule }

func (o withoutVersion) Open(pkg *loader.Package, path string) (io.WriteCloser, error) {
	file, err := o.OutputRule.Open(pkg, path)
	return &versionFilter{file: file}, err
}

type versionFilter struct {
	file   io.WriteCloser
	buffer bytes.Buffer
}

var versionAnnotation = regexp.MustCompile(`(?m)^  annotations:\n    controller-gen\.kubebuilder\.io/version: .*\n`)

func (f *versionFilter) Write(p []byte) (int, error) { return f.buffer.Write(p) }

func (f *versionFilter) Close() error {
	_, err := f.file.Write(versionAnnotation.ReplaceAll(f.buffer.Bytes(), nil))
	return errors.Join(err, f.file.Close())
}

type exactlyOneOf []string

func (fields exactlyOneOf) ApplyToSchema(_ *crdmarkers.SchemaContext, schema *apiextensionsv1.JSONSchemaProps) error {
	for _, field := range fields {
		schema.OneOf = append(schema.OneOf, apiextensionsv1.JSONSchemaProps{Required: []string{field}})
	}
	return nil
}

type notTogether []string

func (fields notTogether) ApplyToSchema(_ *crdmarkers.SchemaContext, schema *apiextensionsv1.JSONSchemaProps) error {
	schema.Not = &apiextensionsv1.JSONSchemaProps{Required: fields}
	return nil
}
