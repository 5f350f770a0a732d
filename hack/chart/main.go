// Command chart writes the files that are derived from the chart in charts/ephor:
//
//	charts/ephor/definitions/*.json   from config/crds
//	charts/ephor/values.schema.json   from values.yaml and its comments
//	charts/ephor/without-effect.yaml  the values that are accepted without effect, with their defaults, for NOTES.txt
//	docs/start/install.md                   the tables of values, between its markers
//	charts/rendered/*.yaml            what the chart installs with charts/values/*.yaml, for development control planes
//
// and those that are derived from the chart in charts/ephor-policies: its values.schema.json, and the table of docs/start/pod-security.md
//
//	go run ./hack/chart [-out DIR]    DIR is the root of a checkout, or of a copy of it
//
// It runs bin/tools/helm, which hack/helm.sh builds.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"ephor.invalid/ephor/hack/chart/helm"
	"ephor.invalid/ephor/hack/chart/values"
)

func main() {
	out := flag.String("out", ".", "root of the checkout")
	flag.Parse()
	if err := generate(*out); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func generate(root string) error {
	dir := filepath.Join(root, "charts", "ephor")
	definitions := filepath.Join(dir, "definitions")
	if err := writeDefinitions(filepath.Join(root, "config", "crds"), definitions); err != nil {
		return err
	}
	policies, err := schemaOf(filepath.Join(root, "charts", "ephor-policies"))
	if err != nil {
		return err
	}
	if err := policies.WriteTable(filepath.Join(root, "docs", "start", "pod-security.md")); err != nil {
		return err
	}
	v, err := schemaOf(dir)
	if err != nil {
		return err
	}
	ignored, err := v.IgnoredValues()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "without-effect.yaml"), ignored, 0o644); err != nil {
		return err
	}
	if err := v.WriteTables(filepath.Join(root, "docs", "start", "install.md")); err != nil {
		return err
	}
	sets, err := filepath.Glob(filepath.Join(root, "charts", "values", "*.yaml"))
	if err != nil {
		return err
	}
	for _, set := range sets {
		docs, err := helm.Template(dir, helm.Release, "-f", set)
		if err != nil {
			return fmt.Errorf("%s: %w", set, err)
		}
		rendered, err := fold(docs, definitions)
		if err != nil {
			return fmt.Errorf("%s: %w", set, err)
		}
		if err := os.WriteFile(filepath.Join(root, "charts", "rendered", filepath.Base(set)), rendered, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// schemaOf reads the values of a chart, and writes their schema.
func schemaOf(chart string) (*values.Value, error) {
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return nil, err
	}
	v, err := values.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", chart, err)
	}
	schema, err := v.Schema(filepath.Base(chart))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", chart, err)
	}
	return v, os.WriteFile(filepath.Join(chart, "values.schema.json"), schema, 0o644)
}
