package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v2"
)

// NewCreate returns the command create.
func NewCreate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a test, values file, user info, exception, role or metrics configuration",
		Long: "Create prints objects and files that policies need, with values from flags. The output can be applied, or used by the\n" +
			"other commands, without changes.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCreateClusterRole(), newCreateException(), newCreateMetricsConfig(), newCreateTest(), newCreateUserInfo(), newCreateValues())
	return cmd
}

// fields is a YAML mapping whose keys keep their order.
type fields = yaml.MapSlice

// addField appends a key unless its value is empty.
func addField(f fields, key string, v any) fields {
	switch v := v.(type) {
	case string:
		if v == "" {
			return f
		}
	case []string:
		if len(v) == 0 {
			return f
		}
	case fields:
		if len(v) == 0 {
			return f
		}
	case []fields:
		if len(v) == 0 {
			return f
		}
	}
	return append(f, yaml.MapItem{Key: key, Value: v})
}

// setField appends a key, even if its value is empty.
func setField(f fields, key string, v any) fields { return append(f, yaml.MapItem{Key: key, Value: v}) }

// newObject returns an object with its kind and name.
func newObject(apiVersion, kind string, metadata fields) fields {
	return fields{{Key: "apiVersion", Value: apiVersion}, {Key: "kind", Value: kind}, {Key: "metadata", Value: metadata}}
}

// outputFlag adds --output, which all create commands have.
func outputFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVarP(to, "output", "o", "", "file to write; by default standard output")
}

// writeCreated writes the object to the file, or to standard output if the user names none.
func writeCreated(cmd *cobra.Command, file string, o fields) error {
	b, err := yaml.Marshal(o)
	if err != nil {
		return err
	}
	if file == "" {
		_, err = cmd.OutOrStdout().Write(b)
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o644)
}

// splitFlag splits the value of a flag at commas into at least low and at most high parts. what describes the parts in the error.
func splitFlag(flag, text, what string, low, high int) ([]string, error) {
	parts := strings.Split(text, ",")
	if len(parts) < low || high > 0 && len(parts) > high {
		return nil, fmt.Errorf("--%s %s: expected %s", flag, text, what)
	}
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
		if parts[i] == "" && i < low {
			return nil, fmt.Errorf("--%s %s: expected %s", flag, text, what)
		}
	}
	return parts, nil
}

// assignments parses k=v,… as a mapping in the given order. If typed, values are parsed as YAML: numbers and booleans keep their type.
func assignments(flag string, parts []string, typed bool) (fields, error) {
	var out fields
	for _, p := range parts {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("--%s %s: expected key=value", flag, p)
		}
		var value any = v
		if typed {
			if err := yaml.Unmarshal([]byte(v), &value); err != nil || value == nil {
				value = v
			}
		}
		out = setField(out, k, value)
	}
	return out, nil
}
