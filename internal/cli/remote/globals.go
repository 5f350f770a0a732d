package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"ephor.invalid/ephor/internal/apipath"
	"ephor.invalid/ephor/internal/globalentry"
	"ephor.invalid/ephor/internal/world"
)

// globals are the GlobalContextEntries of a cluster. Each is fetched once, when a rule first reads it.
type globals struct {
	objects  world.Objects
	api      world.API
	services world.Services

	mu      sync.Mutex
	entries map[string]*fetched
}

// fetched is one entry and its data.
type fetched struct {
	once  sync.Once
	entry *globalentry.Entry
	data  any
	err   error
}

// read is world.Globals.
func (g *globals) read(ctx context.Context, asked world.GlobalRequest) (any, error) {
	name, projection, _ := strings.Cut(string(asked), ".")
	g.mu.Lock()
	if g.entries == nil {
		g.entries = map[string]*fetched{}
	}
	f := g.entries[name]
	if f == nil {
		f = &fetched{}
		g.entries[name] = f
	}
	g.mu.Unlock()
	f.once.Do(func() { f.err = g.fetch(ctx, name, f) })
	if f.err != nil {
		return nil, fmt.Errorf("the GlobalContextEntry %s: %w", name, f.err)
	}
	return f.entry.Project(ctx, projection, f.data)
}

func (g *globals) fetch(ctx context.Context, name string, f *fetched) error {
	o, err := g.find(ctx, name)
	if err != nil {
		return err
	}
	entry, mistakes := globalentry.Compile(o)
	f.entry = entry
	switch e := entry; {
	case mistakes.HasErrors():
		return mistakes.Err()
	case e.Resource != nil:
		f.data, err = g.list(ctx, e.Resource)
	case e.Call.API != nil:
		f.data, err = g.api(ctx, *e.Call.API)
	case e.Call.Service != nil:
		f.data, err = g.services(ctx, *e.Call.Service)
	}
	return err
}

// find reads the entry in any version that the cluster serves.
func (g *globals) find(ctx context.Context, name string) (map[string]any, error) {
	err := errors.New("the cluster serves no such kind")
	for _, version := range globalentry.Versions {
		var o map[string]any
		if o, err = g.objects.Get(ctx, globalentry.Group+"/"+version, globalentry.Kind, "", name); err == nil {
			return o, nil
		}
		if apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return nil, err
}

// list returns the objects of a resource.
func (g *globals) list(ctx context.Context, r *globalentry.Resource) (any, error) {
	path, err := listPath(r)
	if err != nil {
		return nil, err
	}
	answer, err := g.api(ctx, world.APIRequest{Method: world.GET, Path: path})
	if err != nil {
		return nil, err
	}
	list, _ := answer.(map[string]any)
	items, ok := list["items"].([]any)
	if !ok {
		return nil, fmt.Errorf("%s is not a list", path)
	}
	listKind, _ := list["kind"].(string)
	for _, item := range items { // the objects are not shared yet
		if o, ok := item.(map[string]any); ok && o["kind"] == nil {
			o["apiVersion"], o["kind"] = r.APIVersion, strings.TrimSuffix(listKind, "List")
		}
	}
	return items, nil
}

func listPath(r *globalentry.Resource) (apipath.Path, error) {
	prefix := "/apis/"
	if !strings.Contains(r.APIVersion, "/") {
		prefix = "/api/"
	}
	text := prefix + r.APIVersion
	if r.Namespace != "" {
		text += "/namespaces/" + r.Namespace
	}
	return apipath.Parse(text + "/" + r.Resource)
}
