package webhooks

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deploymentAPI returns a Deployment or an error, and counts removals.
type deploymentAPI struct {
	client.Reader
	client.Writer
	object  map[string]any
	err     error
	removed int
	// passing are errors that the next requests get, one each; nil for an answer.
	passing []error
}

// pass returns the error of the next request.
func (a *deploymentAPI) pass() (err error) {
	if len(a.passing) > 0 {
		err, a.passing = a.passing[0], a.passing[1:]
	}
	return err
}

func (a *deploymentAPI) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if err := cmp.Or(a.pass(), a.err); err != nil {
		return err
	}
	if a.object == nil {
		return apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: "deployments"}, key.Name)
	}
	o.(*unstructured.Unstructured).Object = a.object
	return nil
}

func (a *deploymentAPI) DeleteAllOf(ctx context.Context, _ client.Object, _ ...client.DeleteAllOfOption) error {
	if err := cmp.Or(a.pass(), ctx.Err()); err != nil {
		return err
	}
	a.removed++
	return nil
}

// A request that fails while the process ends is repeated: no other process would remove the configurations.
func TestRemoveOnShutdownAfterFailures(t *testing.T) {
	refused := apierrors.NewTooManyRequests("try again later", 1)
	for _, c := range []struct {
		name    string
		passing []error
	}{
		{"the Deployment cannot be read", []error{errors.New("connection refused"), errors.New("connection refused")}},
		{"one kind cannot be removed", []error{nil, refused}},
		{"the other kind cannot be removed", []error{nil, nil, errors.New("the leader of etcd changed")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				api := &deploymentAPI{object: map[string]any{"spec": map[string]any{"replicas": int64(0)}}, passing: c.passing}
				s := &Shutdown{Live: api, Client: api, Log: slog.New(slog.NewTextHandler(&out, nil)), Deployment: types.NamespacedName{Namespace: "ns", Name: "d"}}
				ctx, stop := context.WithCancel(t.Context())
				stop()
				began := time.Now()
				s.End(ctx)
				if api.removed < 2 || len(api.passing) > 0 || strings.Contains(out.String(), "may remain") {
					t.Errorf("%d removals; the log says %q", api.removed, out.String())
				}
				if spent := time.Since(began); spent > removalTimeout {
					t.Errorf("it took %s", spent)
				}
			})
		})
	}
}

// A right that is gone, as during an uninstallation, does not come back: the process does not wait for it.
func TestShutdownWithoutRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		api := &deploymentAPI{err: apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "d", errors.New("no right"))}
		s := &Shutdown{Live: api, Client: api, Log: slog.New(slog.NewTextHandler(&out, nil)), Deployment: types.NamespacedName{Namespace: "ns", Name: "d"}}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		began := time.Now()
		if s.End(ctx); time.Since(began) > 0 || !strings.Contains(out.String(), "no right") {
			t.Errorf("it took %s; the log says %q", time.Since(began), out.String())
		}
	})
}

// The webhook configurations are removed if no replica will replace this process, and only then.
func TestRemoveOnShutdown(t *testing.T) {
	replicas := func(n int64) map[string]any { return map[string]any{"spec": map[string]any{"replicas": n}} }
	deleted := map[string]any{"metadata": map[string]any{"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": map[string]any{"replicas": int64(1)}}
	for _, c := range []struct {
		name          string
		before, after map[string]any // nil for none
		first, err    error
		alone         bool // there is no Deployment
		running       bool // the process was not stopped
		removed       bool
		says          string
	}{
		{name: "a rolling change, an eviction", before: replicas(3), after: replicas(3)},
		{name: "scaled to zero", before: replicas(3), after: replicas(0), removed: true, says: "it has no replicas"},
		{name: "deleted", before: replicas(1), removed: true, says: "it was deleted"},
		{name: "deleted, and not known at the start", first: errors.New("connection refused"), removed: true, says: "it was deleted"},
		{name: "being deleted", before: replicas(1), after: deleted, removed: true, says: "it is being deleted"},
		{name: "there never was one", says: ""},
		{name: "no name", before: replicas(1), after: replicas(0), alone: true},
		{name: "an error of another kind ends the tasks", before: replicas(1), after: replicas(0), running: true},
		{name: "the API server does not answer", before: replicas(1), err: errors.New("connection refused"), says: "connection refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				api := &deploymentAPI{object: c.before, err: c.first}
				s := &Shutdown{Live: api, Client: api, Log: slog.New(slog.NewTextHandler(&out, nil)), Deployment: types.NamespacedName{Namespace: "ns", Name: "d"}}
				if c.alone {
					s.Deployment.Name = ""
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				s.Begin(ctx)
				api.object, api.err = c.after, c.err
				if !c.running {
					stop()
				}
				s.End(ctx)
				if (api.removed == 2) != c.removed || api.removed%2 != 0 {
					t.Errorf("%d kinds of configurations were removed", api.removed)
				}
				if text := out.String(); !strings.Contains(text, c.says) || c.says == "" && text != "" {
					t.Errorf("the log says %q", text)
				}
			})
		})
	}
}
