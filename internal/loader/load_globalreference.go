package loader

import (
	"fmt"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/world"
)

var globalReference = Loader{
	Field: "globalReference",
	Doc:   "The data of a GlobalContextEntry, which all policies share, or with `entry.projection` one of its projections. Not available in namespaced policies.",
	Examples: []Example{
		{"The names of Deployments", `name: deployments
globalReference:
  name: deployments
  jmesPath: "[].metadata.name"
`},
	},
	Owns:    func(e *kyvernov1.ContextEntry) bool { return e.GlobalReference != nil },
	compile: compileGlobalReference,
}

func compileGlobalReference(e *kyvernov1.ContextEntry, in input) compiled {
	c := compiled{allowance: in.allowance}
	c.reads.Needs.Lookups = true
	ref, entry := e.GlobalReference, e.Name
	if ref.Name == "" {
		c.diags.Errorf(in.path+".name", "a name is required for globalReference context entry")
		c.diags.Hint("add globalReference.name, the name of a GlobalContextEntry")
	}
	// A namespaced policy would read data of the whole cluster (S5 in docs/security/threat-model.md).
	if in.policyNamespace != "" {
		c.diags.Errorf(in.path, "context entry %s: globalReference is not allowed in namespaced policies", entry)
		c.diags.Hint("write a ClusterPolicy")
	}
	name := c.text(ref.Name, in.path+".name")
	q := c.query(entry, ref.JMESPath, in.path+".jmesPath")
	if c.diags.HasErrors() {
		return c
	}
	c.load = func(before *scope.Scope) (any, error) {
		key, err := substitute(entry, name, before)
		if err != nil {
			return nil, err
		}
		globals := before.Env.World.Globals
		if globals == nil {
			return nil, fmt.Errorf("failed to fetch entry key=%s: global context entries are %w", key, world.ErrUnavailable)
		}
		data, err := globals(before.Env.Meter.Context(), world.GlobalRequest(key))
		if err != nil {
			return nil, fmt.Errorf("failed to fetch entry key=%s: %w", key, err)
		}
		return q.apply(before, data)
	}
	return c
}
