package loader

import (
	"context"
	"fmt"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/world"
)

var configMap = Loader{
	Field: "configMap",
	Doc:   "The data and metadata of a ConfigMap. Values remain strings, even if they look like JSON. The namespace defaults to the policy's own; of a ClusterPolicy to `default`.",
	Examples: []Example{
		{"A ConfigMap, whose key `hosts` is then `dictionary.data.hosts`", `name: dictionary
configMap:
  name: allowed-registries
  namespace: platform
`},
	},
	Owns:    func(e *kyvernov1.ContextEntry) bool { return e.ConfigMap != nil },
	compile: compileConfigMap,
}

func compileConfigMap(e *kyvernov1.ContextEntry, in input) compiled {
	c := compiled{allowance: in.allowance}
	ref, entryName := e.ConfigMap, e.Name
	if ref.Name == "" {
		c.diags.Errorf(in.path+".name", "a name is required for configMap context entry")
		c.diags.Hint("add configMap.name, the name of the ConfigMap")
		return c
	}
	namespace := ref.Namespace
	if namespace == "" {
		namespace = in.policyNamespace
	}
	if namespace == "" {
		namespace = "default"
	}
	nameText := template.Compile(ref.Name, template.Options{Allowance: c.allowance})
	namespaceText := template.Compile(namespace, template.Options{Allowance: c.allowance})
	c.diags.Add(at(in.path+".name", nameText)...)
	c.diags.Add(at(in.path+".namespace", namespaceText)...)
	c.reads.Add(nameText)
	c.reads.Add(namespaceText)
	c.reads.Needs.Lookups = true
	if ns, static := namespaceText.Static(); static && in.policyNamespace != "" && ns != in.policyNamespace {
		c.diags.Errorf(in.path+".namespace", "%s", foreignNamespace(entryName, namespace, in.policyNamespace))
		c.diags.Hint("a namespaced policy reads ConfigMaps of its own namespace only")
	}
	c.load = func(before *scope.Scope) (any, error) {
		name, err := nameText.EvalString(before.QueryEnv(), before)
		if err != nil {
			return nil, fmt.Errorf("failed to substitute variables in context entry %s: %w", entryName, err)
		}
		ns, err := namespaceText.EvalString(before.QueryEnv(), before)
		if err != nil {
			return nil, fmt.Errorf("failed to substitute variables in context entry %s: %w", entryName, err)
		}
		// The namespace is checked again here, because a namespace with variables is known only now.
		if in.policyNamespace != "" && ns != in.policyNamespace {
			return nil, foreignNamespace(entryName, ns, in.policyNamespace)
		}
		obj, err := getConfigMap(before.Env.Meter.Context(), before.Env.World.Objects, ns, name)
		if err != nil {
			return nil, fmt.Errorf("failed to retrieve config map for context entry %s: failed to get configmap %s/%s : %w", entryName, ns, name, err)
		}
		data, ok := obj["data"]
		if !ok || data == nil {
			data = map[string]any{}
		}
		return map[string]any{"data": data, "metadata": obj["metadata"]}, nil
	}
	return c
}

func getConfigMap(ctx context.Context, objects world.Objects, namespace, name string) (map[string]any, error) {
	if objects == nil {
		return nil, fmt.Errorf("configmaps are %w", world.ErrUnavailable)
	}
	return objects.Get(ctx, "v1", "ConfigMap", namespace, name)
}

func foreignNamespace(entry, namespace, policyNamespace string) error {
	return fmt.Errorf("context entry %s: configMap namespace %q is different from policy namespace %q", entry, namespace, policyNamespace)
}
