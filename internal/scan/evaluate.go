package scan

import (
	"context"
	"time"

	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
)

// evalTimeout bounds the evaluation of one resource.
const evalTimeout = 30 * time.Second

// evaluateIfChanged evaluates the policies for the object unless neither has changed since the last time; if only some policies changed, it
// evaluates those. It skips objects in the share of another process. It reports whether the object must be evaluated again.
func (l *loop) evaluateIfChanged(ctx context.Context, i *item, always bool) (again bool) {
	ctx, release, ok := l.hold(ctx, i.namespace)
	if !ok {
		return false
	}
	defer release()
	s := l.set.Load()
	l.known.Lock()
	o := l.objects[i.uid]
	if o == nil {
		o = &object{namespace: i.namespace, name: i.name}
		l.objects[i.uid] = o
	}
	o.meta, o.sweep = i.meta, l.sweeps
	asked := o.asked
	current := o.revision == s.revision && o.hash == i.hash
	evaluated := report.Evaluated{Elsewhere: s.elsewhere}
	if o.revision != 0 && o.hash == i.hash && !always {
		evaluated.Policies = s.since(o.revision)
	}
	l.known.Unlock()
	if current && !always || ctx.Err() != nil {
		return false
	}
	err := l.evaluate(ctx, s, i, evaluated)
	l.s.o.Observer.Reconciled(Name)
	if err != nil {
		if ctx.Err() == nil {
			l.s.o.Observer.Requeued(Name, 1)
			l.s.o.Log.Warn("result not reported, will try again", "kind", s.resource.Kind, "namespace", i.namespace, "name", i.name, "error", err)
		}
	}
	l.known.Lock()
	defer l.known.Unlock()
	switch {
	case err != nil:
		o.revision = 0
	case o.asked == asked: // otherwise another evaluation was requested meanwhile
		o.revision, o.hash = s.revision, i.hash
	}
	if err == nil {
		delete(l.failing, i.uid)
	}
	return err != nil
}

// evaluate evaluates the policies in evaluated on the object, and reports the results.
func (l *loop) evaluate(ctx context.Context, s *set, i *item, evaluated report.Evaluated) error {
	o, gvk := &l.s.o, s.resource.GVK()
	req := &policy.Request{Review: policy.Review{
		Origin: policy.FromScan, Operation: policy.Create, GVK: gvk, RequestGVK: gvk, GVR: s.resource.GroupVersionResource,
		Namespace: i.namespace, Name: i.name, Conf: o.Conf(),
		ResolveNamespace: func(ctx context.Context) (map[string]string, error) { return o.Labels(ctx, i.namespace) },
	}}
	var err error
	if req.Object, err = i.decode(s.reads(req)); err != nil {
		return err
	}
	out := policy.Outcome{Request: req}
	if o.Skip == nil || !o.Skip(gvk, i.namespace, i.name) {
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
