package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lacking is a cache whose API server does not know some kinds.
type lacking struct {
	cache.Cache
	kinds map[string]bool
	err   error
}

func (c *lacking) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	switch gvk := o.GetObjectKind().GroupVersionKind(); {
	case c.err != nil:
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

// A kind that is not defined keeps nothing else from being followed, is reported once, and is followed when it is defined.
func TestOptionalKinds(t *testing.T) {
	var log bytes.Buffer
	c := &lacking{kinds: map[string]bool{globalEntryGVK.Kind: true, exceptionGVK.Kind: true}}
	o := optional{cache: c, log: slog.New(slog.NewTextHandler(&log, nil))}
	all := []watched{}
	for _, gvk := range []schema.GroupVersionKind{globalEntryGVK, exceptionGVK, namespaceGVK} {
		all = append(all, watched{policyObject(gvk), toolscache.ResourceEventHandlerFuncs{}})
	}
	if err := o.watch(t.Context(), all); err != nil || len(o.missing) != 2 {
		t.Fatalf("%d are missing, %v", len(o.missing), err)
	}
	look := o.task()
	for _, kind := range []string{"", globalEntryGVK.Kind} {
		delete(c.kinds, kind)
		next, err := look.once(t.Context())
		if err != nil || next != retryMissing || len(o.missing) != len(c.kinds) {
			t.Errorf("after %q: %d are missing, next %s, %v", kind, len(o.missing), next, err)
		}
	}
	clear(c.kinds)
	for _, want := range []bool{true, false} { // the round that finds the last one, and the one after it
		if next, err := look.once(t.Context()); err != nil || len(o.missing) > 0 || (next > 0) != want {
			t.Errorf("%d are missing, next %s, %v", len(o.missing), next, err)
		}
	}
	if n := strings.Count(log.String(), "is not defined"); n != 2 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
	c.err = errors.New("no answer")
	if err := o.watch(t.Context(), all); !errors.Is(err, c.err) || !strings.Contains(err.Error(), "GlobalContextEntry") {
		t.Error(err)
	}
}
