package observe

import (
	"context"

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
	return world.Through(next, func(ctx context.Context, c world.Call, next world.Next) (any, error) {
		if !trace.SpanFromContext(ctx).IsRecording() {
			return next(ctx, c.Request)
		}
		name := c.Title()
		ctx, span := t.tracer.Start(ctx, "CONTEXT "+name, trace.WithAttributes(attribute.String("kyverno.lookup", name)))
		defer span.End()
		v, err := next(ctx, c.Request)
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		return v, err
	})
}
