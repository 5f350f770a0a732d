package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/charts"
	"ephor.invalid/ephor/config/formats"
	"ephor.invalid/ephor/internal/strict"
)

// kind is a kind that Ephor defines, with the schema of one version.
type kind struct {
	name, apiVersion string
	schema           map[string]any
}

func newSchema() *cobra.Command {
	version := ""
	cmd := &cobra.Command{
		Use:   "schema [KIND]",
		Short: "Print the JSON schema of a kind, for editors and validators",
		Long: "Schema prints the JSON schema of a kind of policy, exception, report or test file, or of a record of a decision. Without a kind it lists them.\n" +
			"KIND is the name in any case. Where two groups have a kind, add the group: policyexception.kyverno.io.",
		Example: "  ephor schema\n" +
			"  ephor schema Test > test.schema.json\n" +
			"  ephor schema PolicyException.kyverno.io --api-version kyverno.io/v2beta1",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := kinds()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				for _, k := range all {
					fmt.Fprintf(cmd.OutOrStdout(), "%-40s %s\n", k.apiVersion, k.name)
				}
				return nil
			}
			k, err := find(all, args[0], version)
			if err != nil {
				return err
			}
			text, err := json.MarshalIndent(k.document(), "", "  ")
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
			return err
		},
	}
	cmd.Flags().StringVar(&version, "api-version", "", "version of the kind, as group/version; the newest if not set")
	return cmd
}

// kinds returns every version of every kind, sorted by kind. The newest version of a kind comes first.
func kinds() (out []kind, err error) {
	definitions := formats.Definitions()
	for _, text := range charts.Definitions() {
		definitions = append(definitions, text)
	}
	for _, text := range definitions {
		var d struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Served bool
					Schema struct {
						OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
					}
				}
			}
		}
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, err
		}
		for _, v := range d.Spec.Versions {
			if v.Served {
				out = append(out, kind{d.Spec.Names.Kind, d.Spec.Group + "/" + v.Name, v.Schema.OpenAPIV3Schema})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b kind) int { return cmp.Compare(a.name, b.name) })
	return out, nil
}

// find returns the kind that a user names.
func find(all []kind, asked, version string) (kind, error) {
	name, group, _ := strings.Cut(asked, ".")
	var names, versions []string
	found, groups := -1, map[string]bool{}
	for i, k := range all {
		names = append(names, k.name)
		of, _, _ := strings.Cut(k.apiVersion, "/")
		if !strings.EqualFold(k.name, name) || group != "" && group != of {
			continue
		}
		versions = append(versions, k.apiVersion)
		if version != "" && version != k.apiVersion {
			continue
		}
		groups[strings.ToLower(k.name)+"."+of] = true
		if found < 0 {
			found = i
		}
	}
	switch {
	case len(groups) > 1:
		return kind{}, fmt.Errorf("several groups have a kind %s: name one of %s", name, strings.Join(slices.Sorted(maps.Keys(groups)), ", "))
	case found >= 0:
		return all[found], nil
	case len(versions) > 0:
		return kind{}, fmt.Errorf("%s has no version %s: its versions are %s", name, version, strings.Join(versions, ", "))
	}
	text := "there is no schema of the kind " + asked
	if near := strict.Nearest(name, names); near != "" {
		text += ": did you mean " + near + "?"
	}
	return kind{}, errors.New(text + "\n(ephor schema lists all kinds)")
}

// document returns the schema in the form of JSON schema, which editors read. It refuses unknown fields, as `ephor lint` does.
func (k kind) document() map[string]any {
	out := jsonSchema(k.schema)
	out["$schema"] = "http://json-schema.org/draft-07/schema#"
	out["title"] = k.name + " (" + k.apiVersion + ")"
	if properties, ok := out["properties"].(map[string]any); ok && properties["apiVersion"] != nil {
		properties["apiVersion"] = map[string]any{"enum": []any{k.apiVersion}}
		properties["kind"] = map[string]any{"enum": []any{k.name}}
		properties["metadata"] = map[string]any{"type": "object"}
	}
	return out
}

// jsonSchema converts a schema of a CustomResourceDefinition.
func jsonSchema(s map[string]any) map[string]any {
	out := map[string]any{}
	for key, v := range s {
		switch key {
		case "properties":
			properties := map[string]any{}
			for name, p := range v.(map[string]any) {
				properties[name] = below(p)
			}
			out[key] = properties
		case "items", "additionalProperties", "not":
			out[key] = below(v)
		case "oneOf", "anyOf", "allOf":
			var list []any
			for _, e := range v.([]any) {
				list = append(list, below(e))
			}
			out[key] = list
		case "nullable":
		default:
			if !strings.HasPrefix(key, "x-kubernetes-") {
				out[key] = v
			}
		}
	}
	if s["x-kubernetes-int-or-string"] == true {
		delete(out, "anyOf")
		out["type"] = []any{"integer", "string"}
	}
	if s["nullable"] == true && out["type"] != nil {
		out["type"] = []any{out["type"], "null"}
	}
	if out["properties"] != nil && out["type"] == "object" && out["additionalProperties"] == nil && s["x-kubernetes-preserve-unknown-fields"] != true {
		out["additionalProperties"] = false
	}
	return out
}

func below(v any) any {
	if s, ok := v.(map[string]any); ok {
		return jsonSchema(s)
	}
	return v
}
