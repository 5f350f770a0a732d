package execute

import (
	"context"
	"errors"

	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

// doMutateExisting changes the targets of a mutate rule for one trigger.
func (w *Worker) doMutateExisting(ctx context.Context, t *task) error {
	req, err := w.read.request(ctx, t)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	out := w.Planner.evaluate(ctx, t, req)
	var errs []error
	targets := 0
	if t.written == nil {
		t.written = newProgress().writtenBy(t.u, t.RuleContext)
	}
	for i := range out.Work {
		x := &out.Work[i]
		for j := range x.Targets {
			target := t.written.next(&x.Targets[j])
			if targets++; t.written.has(target) {
				continue
			}
			var err error
			if !t.written.made(target, &x.Targets[j]) {
				err = w.apply.mutate(ctx, t, &x.Targets[j])
			}
			if err != nil {
				t.written.failed(target, &x.Targets[j], err)
				errs = append(errs, err)
			} else {
				t.written.own[target] = true
			}
			if t.rule.ReportsTargets && targets <= maxReportedTargets {
				w.report.target(t, &x.Targets[j], err)
			}
		}
		if x.Err != nil {
			errs = append(errs, x.Err)
		}
	}
	for i := range out.Results {
		// A result of the whole rule has no target.
		if r := &out.Results[i]; r.Status == policy.StatusError && targets == 0 && len(errs) == 0 {
			errs = append(errs, errors.New(r.Message))
		}
	}
	err = errors.Join(errs...)
	w.report.result(t, req, &out, err)
	if err != nil {
		w.report.failure(event.MutateController, t, updaterequest.Reference(t.Trigger), err)
		return err
	}
	return nil
}
