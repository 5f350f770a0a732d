package intake

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var exceptionKind = schema.GroupVersionKind{Group: "kyverno.io", Version: "v2", Kind: "PolicyException"}

// lacking is a cache whose API server does not know some kinds.
type lacking struct {
	cache.Cache
	kinds map[string]bool
	err   error  // the answer for the kind that fails
	fails string // empty for all kinds
}

func (c *lacking) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	switch gvk := o.GetObjectKind().GroupVersionKind(); {
	case c.err != nil && (c.fails == "" || c.fails == gvk.Kind):
		return nil, c.err
	case c.kinds[gvk.Kind]:
		return nil, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	}
	return noInformer{}, nil
}

type noInformer struct{ cache.Informer }

func (noInformer) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return noInformer{}, nil
}
func (noInformer) HasSynced() bool                          { return true }
func (noInformer) HasSyncedChecker() toolscache.DoneChecker { return nil }

// An undefined kind does not block the others, is reported once, and is followed once it is defined.
func TestOptionalKinds(t *testing.T) {
	var log bytes.Buffer
	c := &lacking{kinds: map[string]bool{EntryKind.Kind: true, exceptionKind.Kind: true}}
	o := Kinds{Cache: c, Log: slog.New(slog.NewTextHandler(&log, nil))}
	all := []Watch{}
	for _, gvk := range []schema.GroupVersionKind{EntryKind, exceptionKind, {Version: "v1", Kind: "Namespace"}} {
		all = append(all, Watch{Object: Object(gvk), Optional: true, Handler: toolscache.ResourceEventHandlerFuncs{}})
	}
	if err := o.Follow(t.Context(), all); err != nil || len(o.missing) != 2 {
		t.Fatalf("%d are missing, %v", len(o.missing), err)
	}
	for _, kind := range []string{"", EntryKind.Kind} {
		delete(c.kinds, kind)
		next, err := o.Again(t.Context())
		if err != nil || next != RetryMissing || len(o.missing) != len(c.kinds) {
			t.Errorf("after %q: %d are missing, next %s, %v", kind, len(o.missing), next, err)
		}
	}
	clear(c.kinds)
	for _, want := range []bool{true, false} { // the round that finds the last kind, and the next one
		if next, err := o.Again(t.Context()); err != nil || len(o.missing) > 0 || (next > 0) != want {
			t.Errorf("%d are missing, next %s, %v", len(o.missing), next, err)
		}
	}
	if n := strings.Count(log.String(), "is not defined"); n != 2 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
	c.err = errors.New("no answer")
	if err := o.Follow(t.Context(), all); !errors.Is(err, c.err) || !strings.Contains(err.Error(), "GlobalContextEntry") {
		t.Error(err)
	}
}

// A kind that has started is not started again after another one failed.
func TestFailedKind(t *testing.T) {
	c := &lacking{kinds: map[string]bool{EntryKind.Kind: true, exceptionKind.Kind: true}}
	o := Kinds{Cache: c, Log: slog.New(slog.DiscardHandler)}
	all := []Watch{}
	for _, gvk := range []schema.GroupVersionKind{exceptionKind, EntryKind} {
		all = append(all, Watch{Object: Object(gvk), Optional: true, Handler: toolscache.ResourceEventHandlerFuncs{}})
	}
	if err := o.Follow(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	delete(c.kinds, exceptionKind.Kind)
	c.fails, c.err = EntryKind.Kind, errors.New("no answer")
	if _, err := o.Again(t.Context()); !errors.Is(err, c.err) || len(o.missing) != 1 || kindOf(o.missing[0].Object) != kindOf(all[1].Object) {
		t.Errorf("%d are missing, %v", len(o.missing), err)
	}
}

// A required kind that is not defined is an error.
func TestRequiredKinds(t *testing.T) {
	c := &lacking{kinds: map[string]bool{EntryKind.Kind: true}}
	k := Kinds{Cache: c, Log: slog.New(slog.DiscardHandler)}
	err := k.Follow(t.Context(), []Watch{{Object: Object(EntryKind), Handler: toolscache.ResourceEventHandlerFuncs{}}})
	if !meta.IsNoMatchError(err) || len(k.Missing()) > 0 {
		t.Errorf("%v, missing %v", err, k.Missing())
	}
}

// versions is a cache whose API server begins to serve a single version of the kinds after some lookups.
type versions struct {
	cache.Cache
	version  string
	after    int
	looks    int
	followed []string
}

func (c *versions) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	gvk := o.GetObjectKind().GroupVersionKind()
	if c.looks++; gvk.Version != c.version || c.looks <= c.after {
		return nil, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	}
	c.followed = append(c.followed, gvk.Version)
	return noInformer{}, nil
}

// defines is an API server that has some definitions.
type defines struct {
	client.Reader
	names []string
}

func (d defines) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	if slices.Contains(d.names, key.Name) {
		return nil
	}
	return errors.New("not found")
}

// A kind is followed in the best served version, and one that is defined but not served yet is awaited.
func TestServedVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gvk := schema.GroupVersionKind{Group: "policies.kyverno.io", Version: "v1beta1", Kind: "ValidatingPolicy"}
		for _, x := range []struct {
			name, version string
			after         int
			defined       bool
			want          string
		}{
			{"the first", "v1beta1", 0, true, "v1beta1"},
			{"an older one", "v1alpha1", 0, true, "v1alpha1"},
			{"none", "v9", 0, false, ""},
			{"one that comes, without a definition", "v1beta1", 5, false, ""},
			{"one that comes, with a definition", "v1beta1", 5, true, "v1beta1"},
			{"one that does not come", "v9", 0, true, ""},
		} {
			c := &versions{version: x.version, after: x.after}
			d := defines{}
			if x.defined {
				d.names = []string{"validatingpolicies.policies.kyverno.io"}
			}
			k := Kinds{Cache: c, Live: d, Log: slog.New(slog.DiscardHandler)}
			w := Watch{Object: Object(gvk), Resource: "validatingpolicies", Older: []string{"v1", "v1alpha1"}, Optional: true, Handler: toolscache.ResourceEventHandlerFuncs{}}
			if err := k.Follow(t.Context(), []Watch{w}); err != nil {
				t.Errorf("%s: %v", x.name, err)
			}
			if got := strings.Join(c.followed, " "); got != x.want || (len(k.Missing()) > 0) != (x.want == "") {
				t.Errorf("%s: followed in %q, missing %v, want %q", x.name, got, k.Missing(), x.want)
			}
		}
	})
}
