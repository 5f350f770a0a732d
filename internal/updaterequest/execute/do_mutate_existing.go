package execute

import (
	"context"
	"errors"

	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

// doMutateExisting changes the targets of a mutate rule for one trigger, once for each request and version of the trigger.
func (w *Worker) doMutateExisting(ctx context.Context, t *task) error {
	execution := t.executionOf()
	if w.Executed.has(execution) {
		return nil
	}
	req, err := w.read.request(ctx, t)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	version := t.versionOf(req)
	if w.Executed.has(version) {
		w.Executed.record(execution)
		return nil
	}
	out := w.Planner.evaluate(ctx, t, req)
	var errs []error
	targets := 0
	var changed []digest // for this version of the trigger, by this attempt
	older := false       // some targets were changed for an older version
	if t.written == nil {
		t.written = newProgress().writtenBy(t.u, t.RuleContext)
	}
	for i := range out.Work {
		x := &out.Work[i]
		for j := range x.Targets {
			target := t.written.next(&x.Targets[j])
			once := target.of(version)
			if targets++; w.Executed.has(once) {
				continue
			}
			if t.written.has(target) {
				older = true
				continue
			}
			var err error
			earlier, made := t.written.made(target, &x.Targets[j])
			if !made {
				err = w.apply.mutate(ctx, t, &x.Targets[j])
			}
			switch {
			case err != nil:
				t.written.failed(target, once, &x.Targets[j], err)
				errs = append(errs, err)
			case made:
				t.written.own[target] = true
				changed = append(changed, earlier)
				older = older || earlier != once
			default:
				t.written.own[target] = true
				changed = append(changed, once)
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
		w.Executed.record(changed[:min(len(changed), maxNoted)]...)
		w.report.failure(event.MutateController, t, updaterequest.Reference(t.Trigger), err)
		return err
	}
	if targets == 0 || older {
		version = digest{} // the rule may apply to another request, or has work left for it
		w.Executed.record(changed[:min(len(changed), maxNoted)]...)
	}
	w.Executed.record(execution, version)
	return nil
}
