package observe

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/credentials"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
)

// Tracer creates spans and sends them to a collector. A nil *Tracer creates no spans and wraps nothing.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	context  propagation.TextMapPropagator
	// process is the prefix of the names of server spans, such as ADMISSION.
	process string
	// redaction names the values of objects that are removed from messages. Values of Secrets are always removed.
	redaction *decision.Redaction
}

// Redact makes the Tracer remove the values that a Redaction names from messages. It must be called before the first span.
func (t *Tracer) Redact(r *decision.Redaction) {
	if t != nil {
		t.redaction = r
	}
}

// NewTracer returns a Tracer that sends spans to the collector. process is the name of the process, such as admission. The environment
// variable OTEL_TRACES_SAMPLER sets the sampler; by default all spans are sampled.
func NewTracer(ctx context.Context, c Collector, process, version string, log *slog.Logger) (*Tracer, error) {
	options := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(c.Address)}
	if c.TLS == nil {
		options = append(options, otlptracegrpc.WithInsecure())
	} else {
		options = append(options, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(c.TLS)))
	}
	exporter, err := otlptracegrpc.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("export traces to %s: %w", c.Address, err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are lost", "collector", c.Address, "error", err) }))
	own, err := resource.Merge(resource.Environment(), resource.NewSchemaless(
		attribute.String("service.name", "kyverno-"+process+"-controller"), attribute.String("service.version", version)))
	if err != nil {
		return nil, err
	}
	return newTracer(process, sdktrace.WithBatcher(exporter), sdktrace.WithResource(own)), nil
}

func newTracer(process string, options ...sdktrace.TracerProviderOption) *Tracer {
	provider := sdktrace.NewTracerProvider(options...)
	return &Tracer{
		provider: provider, tracer: provider.Tracer(scopeName), process: strings.ToUpper(process),
		context: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
	}
}

// Close sends the remaining spans.
func (t *Tracer) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	return t.provider.Shutdown(ctx)
}

// HTTP wraps a server's handler. Each POST is a span, which is a child of the caller's span if the request names one.
func (t *Tracer) HTTP(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		ctx := t.context.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := t.tracer.Start(ctx, t.process+" POST "+r.URL.Path, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Reviewed adds the request and the answer to the span of ctx.
func (t *Tracer) Reviewed(ctx context.Context, req *policy.Request, d policy.Decision) {
	if t == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(requestAttributes(req)...)
	span.SetAttributes(attribute.String("admission.response.uid", req.UID), attribute.Bool("admission.response.allowed", d.Allowed))
	hide := t.redaction.Hide(req)
	if d.Message != "" {
		span.SetAttributes(attribute.String("admission.response.result.message", hide(d.Message)))
	}
	if len(d.Warnings) > 0 {
		warnings := make([]string, len(d.Warnings))
		for i, w := range d.Warnings {
			warnings[i] = hide(w)
		}
		span.SetAttributes(attribute.StringSlice("admission.response.warnings", warnings))
	}
}

func requestAttributes(req *policy.Request) []attribute.KeyValue {
	out := []attribute.KeyValue{
		attribute.String("admission.request.uid", req.UID), attribute.String("admission.request.operation", string(req.Operation)),
		attribute.String("admission.request.name", req.Name), attribute.String("admission.request.namespace", req.Namespace),
		attribute.String("admission.request.subresource", req.Subresource), attribute.Bool("admission.request.dryrun", req.DryRun),
		attribute.String("admission.request.kind.group", req.GVK.Group), attribute.String("admission.request.kind.version", req.GVK.Version),
		attribute.String("admission.request.kind.kind", req.GVK.Kind),
		attribute.String("admission.request.resource.group", req.GVR.Group), attribute.String("admission.request.resource.version", req.GVR.Version),
		attribute.String("admission.request.resource.resource", req.GVR.Resource),
	}
	if u := req.User; u != nil {
		out = append(out, attribute.String("admission.request.user.name", u.Username), attribute.String("admission.request.user.uid", u.UID),
			attribute.StringSlice("admission.request.user.groups", u.Groups))
	}
	return out
}

// Eval wraps an evaluation. Each policy with a rule to evaluate is a span, and each matching rule is a child of it. A nil Tracer
// returns next.
func (t *Tracer) Eval(next func(context.Context, engine.Input) policy.Outcome) func(context.Context, engine.Input) policy.Outcome {
	if t == nil {
		return next
	}
	return func(ctx context.Context, in engine.Input) policy.Outcome {
		if link, ok := ctx.Value(laterKey{}).(trace.Link); ok && link.SpanContext.IsSampled() {
			var span trace.Span
			ctx, span = t.tracer.Start(ctx, "AUDIT "+string(in.Request.Operation)+" "+in.Request.GVK.Kind, trace.WithNewRoot(),
				trace.WithLinks(link), trace.WithAttributes(requestAttributes(in.Request)...))
			defer span.End()
		}
		if !trace.SpanFromContext(ctx).IsRecording() {
			return next(ctx, in)
		}
		w := watch{tracer: t.tracer, base: ctx, hide: t.redaction.Hide(in.Request)}
		in.Watch = w.rule
		out := next(ctx, in)
		w.end()
		return out
	}
}

// laterKey is the context key for the request to which later work is linked.
type laterKey struct{}

// Later returns the context for work after the request of ctx is answered. It has no deadline, and a separate trace that is linked to
// that of the request.
func (t *Tracer) Later(ctx context.Context) context.Context {
	if t == nil {
		return context.Background()
	}
	return context.WithValue(context.Background(), laterKey{}, trace.LinkFromContext(ctx))
}

// watch creates the spans of one evaluation.
type watch struct {
	tracer  trace.Tracer
	base    context.Context
	hide    func(text string) string // removes confidential values of the request
	program *policy.Program
	within  context.Context // the context of the program's span
	span    trace.Span
	matched bool // whether any rule of the program matched
}

func (w *watch) rule(_ context.Context, p *policy.Program, r *policy.Rule) (context.Context, func(policy.Yield)) {
	if w.program != p {
		w.end()
		w.program, w.matched = p, false
		w.within, w.span = w.tracer.Start(w.base, "POLICY "+p.Namespace+"/"+p.Name, trace.WithAttributes(policyAttributes(p)...))
	}
	ctx, span := w.tracer.Start(w.within, "RULE "+r.Name, trace.WithAttributes(attribute.String("kyverno.rule.name", r.Name)))
	return ctx, func(y policy.Yield) {
		if y.Status == policy.StatusNone {
			return // a span that is never ended is never sent
		}
		w.matched = true
		span.SetAttributes(attribute.String("kyverno.rule.result", y.Status.String()))
		if y.Status == policy.StatusError {
			span.SetStatus(codes.Error, w.hide(y.Message))
		}
		span.End()
	}
}

func (w *watch) end() {
	if w.span != nil && w.matched {
		w.span.End()
	}
	w.span = nil
}

func policyAttributes(p *policy.Program) []attribute.KeyValue {
	group, version, found := strings.Cut(p.APIVersion, "/")
	if !found {
		group, version = "", p.APIVersion
	}
	return []attribute.KeyValue{
		attribute.String("kyverno.policy.group", group), attribute.String("kyverno.policy.version", version), attribute.String("kyverno.policy.kind", p.Kind),
		attribute.String("kyverno.policy.name", p.Name), attribute.String("kyverno.policy.namespace", p.Namespace),
	}
}

// RoundTripper creates a span for each request to the API server that is sent within another span.
func (t *Tracer) RoundTripper(next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	return tracing{t, next}
}

type tracing struct {
	tracer *Tracer
	next   http.RoundTripper
}

func (r tracing) RoundTrip(req *http.Request) (*http.Response, error) {
	if !trace.SpanFromContext(req.Context()).IsRecording() {
		return r.next.RoundTrip(req)
	}
	q, ok := queryOf(req, string(KubeClient))
	name := "KUBE " + req.Method + " " + req.URL.Path
	if ok {
		name = "KUBE " + strings.ToUpper(q.operation) + " " + q.kind
	}
	ctx, span := r.tracer.tracer.Start(req.Context(), name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("kube.client.operation", q.operation), attribute.String("kube.client.kind", q.kind),
		attribute.String("kube.client.namespace", q.namespace), attribute.String("kube.client.path", req.URL.Path)))
	defer span.End()
	req = req.Clone(ctx)
	r.tracer.context.Inject(ctx, propagation.HeaderCarrier(req.Header))
	res, err := r.next.RoundTrip(req)
	switch {
	case err != nil:
		span.SetStatus(codes.Error, err.Error())
	default:
		span.SetAttributes(attribute.Int("http.response.status_code", res.StatusCode))
	}
	return res, err
}

// WrappedRoundTripper gives client-go access to the wrapped RoundTripper.
func (r tracing) WrappedRoundTripper() http.RoundTripper { return r.next }
