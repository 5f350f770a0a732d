package observe

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"ephor.invalid/ephor/internal/world"
)

// World wraps the World of policies. Each lookup is a child of its rule's span. A nil Tracer returns next.
func (t *Tracer) World(next world.Root) world.Root {
	if t == nil || next == nil {
		return next
	}
	return world.RootFunc(func(r world.Reach) world.World {
		w := next.For(r)
		if w.Objects != nil {
			w.Objects = tracedObjects{t, w.Objects}
		}
		if l := w.Lists; l != nil {
			traced := tracedLists{t, l}
			w.Lists = traced
			if finder, ok := l.(world.KindFinder); ok {
				w.Lists = tracedFinder{traced, finder}
			}
		}
		if api := w.API; api != nil {
			w.API = world.APIFunc(func(ctx context.Context, r world.APIRequest) (any, error) {
				return lookup(ctx, t, "API "+r.Method+" "+r.Path.String(), func(ctx context.Context) (any, error) { return api.Call(ctx, r) })
			})
		}
		if services := w.Services; services != nil {
			w.Services = world.ServicesFunc(func(ctx context.Context, r world.ServiceRequest) (any, error) {
				url, _, _ := strings.Cut(r.URL, "?") // queries may contain confidential data
				return lookup(ctx, t, "SERVICE "+r.Method+" "+url, func(ctx context.Context) (any, error) { return services.Call(ctx, r) })
			})
		}
		if globals := w.Globals; globals != nil {
			traced := world.GlobalsFunc(func(ctx context.Context, name string) (any, error) {
				return lookup(ctx, t, "GLOBAL "+name, func(ctx context.Context) (any, error) { return globals.Global(ctx, name) })
			})
			w.Globals = traced
			if secrets, ok := globals.(world.GlobalSecrets); ok {
				w.Globals = struct {
					world.Globals
					world.GlobalSecrets
				}{traced, secrets}
			}
		}
		if w.Images != nil {
			traced := tracedImages{t, w.Images}
			if digests, ok := w.Images.(world.Digests); ok {
				w.Images = tracedDigests{traced, digests}
			} else {
				w.Images = traced
			}
		}
		if w.Signatures != nil {
			w.Signatures = tracedSignatures{t, w.Signatures}
		}
		if w.Access != nil {
			w.Access = tracedAccess{t, w.Access}
		}
		return w
	})
}

// lookup creates a span for f if there is a parent span.
func lookup[T any](ctx context.Context, t *Tracer, name string, f func(context.Context) (T, error)) (T, error) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return f(ctx)
	}
	ctx, span := t.tracer.Start(ctx, "CONTEXT "+name, trace.WithAttributes(attribute.String("kyverno.lookup", name)))
	defer span.End()
	v, err := f(ctx)
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	return v, err
}

type tracedObjects struct {
	tracer *Tracer
	next   world.Objects
}

func (o tracedObjects) Get(ctx context.Context, apiVersion, kind, namespace, name string) (map[string]any, error) {
	return lookup(ctx, o.tracer, kind+" "+namespace+"/"+name, func(ctx context.Context) (map[string]any, error) {
		return o.next.Get(ctx, apiVersion, kind, namespace, name)
	})
}

type tracedLists struct {
	tracer *Tracer
	next   world.Lists
}

func (l tracedLists) List(ctx context.Context, q world.Query) ([]map[string]any, error) {
	return lookup(ctx, l.tracer, "LIST "+q.Kind+" "+q.Namespace, func(ctx context.Context) ([]map[string]any, error) {
		return l.next.List(ctx, q)
	})
}

// tracedFinder is a tracedLists that can also find kinds.
type tracedFinder struct {
	tracedLists
	world.KindFinder
}

type tracedImages struct {
	tracer *Tracer
	next   world.Images
}

func (i tracedImages) Image(ctx context.Context, r world.ImageRequest) (map[string]any, error) {
	return lookup(ctx, i.tracer, "IMAGE "+r.Reference, func(ctx context.Context) (map[string]any, error) { return i.next.Image(ctx, r) })
}

// tracedDigests is a tracedImages that can also find digests.
type tracedDigests struct {
	tracedImages
	digests world.Digests
}

func (i tracedDigests) Digest(ctx context.Context, r world.ImageRequest) (string, error) {
	return lookup(ctx, i.tracer, "DIGEST "+r.Reference, func(ctx context.Context) (string, error) { return i.digests.Digest(ctx, r) })
}

type tracedSignatures struct {
	tracer *Tracer
	next   world.Signatures
}

func (s tracedSignatures) Verify(ctx context.Context, r world.SignatureRequest) (string, error) {
	return lookup(ctx, s.tracer, "SIGNATURE "+r.Image, func(ctx context.Context) (string, error) { return s.next.Verify(ctx, r) })
}

func (s tracedSignatures) Statements(ctx context.Context, r world.SignatureRequest) (string, []world.Statement, error) {
	type answer struct {
		digest     string
		statements []world.Statement
	}
	got, err := lookup(ctx, s.tracer, "ATTESTATION "+r.Type+" "+r.Image, func(ctx context.Context) (answer, error) {
		digest, statements, err := s.next.Statements(ctx, r)
		return answer{digest, statements}, err
	})
	return got.digest, got.statements, err
}

func (s tracedSignatures) Blob(ctx context.Context, r world.BlobRequest) (string, error) {
	return lookup(ctx, s.tracer, "SIGNATURE of a manifest", func(ctx context.Context) (string, error) { return s.next.Blob(ctx, r) })
}

type tracedAccess struct {
	tracer *Tracer
	next   world.Access
}

func (a tracedAccess) Allowed(ctx context.Context, r world.AccessRequest) (bool, string, error) {
	type answer struct {
		allowed bool
		reason  string
	}
	got, err := lookup(ctx, a.tracer, "ACCESS "+r.Verb+" "+r.Resource, func(ctx context.Context) (answer, error) {
		allowed, reason, err := a.next.Allowed(ctx, r)
		return answer{allowed, reason}, err
	})
	return got.allowed, got.reason, err
}
