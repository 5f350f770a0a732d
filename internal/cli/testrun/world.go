package testrun

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/clivalues"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/fixed"
)

// testWorld holds the external data that the Test describes: the objects of an imaginary cluster, the responses to calls,
// global data and labels. Anything that the Test does not describe does not exist.
type testWorld struct {
	values fixed.Values
	calls  *clivalues.Calls // nil if the Test has none
	// objects are the objects of the cluster. sources holds, by policy, the objects that only generate rules of that policy can read.
	objects []map[string]any
	sources map[string][]map[string]any
}

func (r *testRun) loadWorld(set *clivalues.Set) (*testWorld, error) {
	w := &testWorld{
		values:  fixed.Values{Now: offline.Now, NamespaceLabels: set.Namespaces(), EveryNamespace: true, Images: r.images, Signatures: r.signatures},
		objects: slices.Clone(set.Objects()),
		sources: map[string][]map[string]any{},
	}
	for _, o := range r.resources {
		if o.request == nil { // the object of a request need not exist
			w.objects = append(w.objects, o.value)
		}
	}
	w.values.Parameters = func() ([]map[string]any, error) { return slices.Concat(r.params, r.cluster), nil }
	if len(r.ClusterResources) > 0 {
		r.log.WriteString("Loading Kubernetes resources ...\n")
		w.objects = append(w.objects, r.cluster...)
	}
	for _, e := range r.Results {
		if e.CloneSourceResource == "" {
			continue
		}
		objects, err := r.expected(r.within(e.CloneSourceResource)[0])
		if err != nil {
			return nil, fmt.Errorf("failed to load the clone source: %w", err)
		}
		name := plainName(e.Policy)
		w.sources[name] = append(w.sources[name], objects...)
	}
	var err error
	if len(r.GlobalContextEntries) > 0 {
		if w.values.Globals, err = clivalues.NewGlobals(r.GlobalContextEntries, r.dir); err != nil {
			return nil, err
		}
	} else {
		w.values.Globals = noGlobals // entries among the resources are meant for a real cluster
	}
	w.values.HTTP = remote.HTTP()
	context, err := r.readContext()
	if err != nil {
		return nil, err
	}
	w.values.ContextResources = func() ([]map[string]any, error) { return slices.Concat(context.Resources, w.objects, r.targets), nil }
	w.values.Served = len(r.targets) > 0
	if w.values.Images.Image == nil {
		w.values.Images = context.Images
	}
	if len(r.APICallResponses) > 0 {
		if w.calls, err = clivalues.NewCalls(r.APICallResponses); err != nil {
			return nil, err
		}
		w.values.Services = w.calls.Services()
		w.values.HTTP = w.calls.HTTP(w.values.HTTP)
	}
	return w, nil
}

// readContext reads the file of kind Context that the Test names. If it names none, the Context is empty.
func (r *testRun) readContext() (*clivalues.Context, error) {
	if r.Context == "" {
		return &clivalues.Context{}, nil
	}
	return load.Context(r.within(r.Context)[0])
}

func noGlobals(context.Context, world.GlobalRequest) (any, error) {
	return nil, fmt.Errorf("the Test has no globalContextEntries: %w", world.ErrUnavailable)
}

// root returns the world for the policy with that name.
func (w *testWorld) root(policy string) world.Root {
	values := w.values
	objects := slices.Concat(w.sources[policy], w.objects)
	values.Objects = func() ([]map[string]any, error) { return objects, nil }
	root := fixed.New(values)
	if w.calls == nil {
		return root
	}
	values.API = w.calls.API(root.For(world.Cluster()).API)
	return fixed.New(values)
}

// loadDefinitions reads the ClusterResource files. It runs before all resources are read, since the definitions in
// these files determine which kinds are cluster-wide.
func (r *testRun) loadDefinitions() error {
	var files []string
	for _, path := range r.within(r.ClusterResources...) {
		cluster, diags := clivalues.ReadClusterResource(path)
		if diags.HasErrors() {
			return terminal.Mistaken("failed to load the cluster resources", diags)
		}
		for i, o := range cluster.Spec.Resources {
			m, ok := o.(map[string]any)
			if !ok {
				return fmt.Errorf("failed to load the cluster resources: %s: spec.resources[%d] is not an object", path, i)
			}
			r.cluster = append(r.cluster, m)
		}
		files = append(files, definitions(path, cluster.Spec.CRDs)...)
	}
	defined, diags := load.Definitions(files)
	if diags.HasErrors() {
		return terminal.Mistaken("failed to load the definitions", diags)
	}
	for _, o := range r.cluster {
		defined.Scopes.AddDefinition(o)
		defined.Names.Define(o)
	}
	for _, o := range r.cluster {
		defined.Scopes.Normalise(o)
	}
	r.names = defined.Names
	r.scopes, r.cluster = defined.Scopes, append(r.cluster, defined.Objects...)
	return nil
}

// definitions returns the paths of the definitions that a ClusterResource file names.
func definitions(path string, names []string) (out []string) {
	for _, f := range names {
		if !filepath.IsAbs(f) {
			f = filepath.Join(filepath.Dir(path), f)
		}
		out = append(out, f)
	}
	return out
}
