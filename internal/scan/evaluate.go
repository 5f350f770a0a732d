package scan

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ephor-dev/ephor/internal/engine"
	"github.com/ephor-dev/ephor/internal/ephemeral"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/report"
	"github.com/ephor-dev/ephor/internal/value"
)

// evalTimeout bounds the evaluation of one resource.
const evalTimeout = 30 * time.Second

// evaluateIfChanged evaluates the policies for the object unless neither has changed since the last time; if only some policies changed, it
// evaluates those. It skips objects in the share of another process.
func (l *loop) evaluateIfChanged(ctx context.Context, u *unstructured.Unstructured, always bool) {
	ctx, release, ok := l.hold(ctx, u.GetNamespace())
	if !ok {
		return
	}
	defer release()
	s, uid := l.set.Load(), string(u.GetUID())
	hash, meta := contentHash(u.Object), metaHash(u.GetResourceVersion(), u.GetGeneration(), u.GetLabels(), u.GetAnnotations())
	l.known.Lock()
	o := l.objects[uid]
	if o == nil {
		o = &object{namespace: u.GetNamespace(), name: u.GetName()}
		l.objects[uid] = o
	}
	o.meta, o.sweep = meta, l.sweeps
	current := o.revision == s.revision && o.hash == hash
	evaluated := report.Evaluated{Elsewhere: s.rules.Elsewhere}
	if o.revision != 0 && o.hash == hash && !always {
		evaluated.Policies = s.since(o.revision)
	}
	l.known.Unlock()
	if current && !always || ctx.Err() != nil {
		return
	}
	err := l.evaluate(ctx, s, u, evaluated)
	l.s.o.Observer.Reconciled(Name)
	if err != nil {
		if ctx.Err() == nil {
			l.s.o.Observer.Requeued(Name, 1)
			l.s.o.Log.Warn("result not reported, will try again", "kind", u.GetKind(), "namespace", u.GetNamespace(), "name", u.GetName(), "error", err)
		}
		l.known.Lock()
		o.revision = 0
		l.pending[uid] = pending{u.GetNamespace(), u.GetName(), uid}
		l.known.Unlock()
		return
	}
	l.known.Lock()
	o.revision, o.hash = s.revision, hash
	l.known.Unlock()
}

// evaluate evaluates the policies in evaluated on the object, and reports the results.
func (l *loop) evaluate(ctx context.Context, s *set, u *unstructured.Unstructured, evaluated report.Evaluated) error {
	o, gvk := &l.s.o, s.resource.GVK()
	req := &policy.Request{
		Origin: policy.FromScan, Operation: policy.Create, GVK: gvk, RequestGVK: gvk, GVR: s.resource.GroupVersionResource,
		Namespace: u.GetNamespace(), Name: u.GetName(), Object: value.Of(u.Object), Conf: o.Conf(),
		ResolveNamespace: func(ctx context.Context) (map[string]string, error) { return o.Labels(ctx, u.GetNamespace()) },
	}
	out := policy.Outcome{Request: req}
	if o.Skip == nil || !o.Skip(gvk, u.GetNamespace(), u.GetName()) {
		l.s.workers <- struct{}{}
		limited, cancel := context.WithTimeout(ctx, evalTimeout)
		out = o.Eval(limited, engine.Input{
			Selections: s.selections(req, evaluated.Policies), Request: req, Stages: ephemeral.ScanStages, Root: o.Root, Now: o.Now,
		})
		cancel()
		<-l.s.workers
		if ctx.Err() != nil {
			return ctx.Err() // an evaluation that was cut off has no valid result
		}
	}
	if o.Evaluated != nil && len(out.Results) > 0 {
		o.Evaluated(&out)
	}
	changed, err := o.Sink.Put(ctx, out, evaluated)
	if changed && o.Reported != nil {
		o.Reported(&out)
	}
	return err
}
