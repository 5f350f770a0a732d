package reports

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/report"
)

// Add merges results of other processes, such as admission, into the report of the resource. A result replaces an older one of the same
// rule. Add reports whether it changed anything but times.
func (w *Writer) Add(ctx context.Context, r *report.Resource, results []policyreport.Result) (changed bool, err error) {
	if r.UID == "" || len(results) == 0 {
		return false, nil
	}
	done, err := w.alone(ctx, r.UID)
	if err != nil {
		return false, err
	}
	defer done()
	st := w.begin(r)
	defer func() { w.end(r, st) }()
	return w.retryConflicts(st, func() (bool, error) { return w.add(ctx, r, results, st) })
}

func (w *Writer) add(ctx context.Context, r *report.Resource, results []policyreport.Result, st *state) (bool, error) {
	w.mu.Lock()
	version, loaded := st.version, st.loaded || st.version == ""
	w.mu.Unlock()
	var held []policyreport.Result
	if version != "" {
		existing := w.o.Form.report(r)
		err := w.o.Client.Get(ctx, client.ObjectKeyFromObject(existing), existing)
		switch {
		case apierrors.IsNotFound(err):
			version, loaded = "", true
		case err != nil:
			return false, err
		default:
			version, held = existing.GetResourceVersion(), w.o.Form.content(existing).Results
		}
	}
	together := report.Together(w.dated(held), results)
	all := compose(report.WithoutCovered(together, together))
	if len(held) == len(all) && same(r, held, all) {
		return false, nil
	}
	object := w.o.Form.report(r)
	w.o.Form.fill(object, &policyreport.ReportContent{Scope: r.Scope(), Summary: report.Summarize(all), Results: all})
	var err error
	if version == "" {
		err = w.o.Client.Create(ctx, object)
	} else {
		object.SetResourceVersion(version)
		err = w.o.Client.Update(ctx, object)
	}
	if err != nil {
		return false, err
	}
	others := w.rulesOf(report.WithoutCovered(results, together))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.about(st, r)
	st.version, st.loaded = object.GetResourceVersion(), loaded
	for _, o := range others {
		if !slices.Contains(st.others, o) {
			st.others = append(st.others, o)
		}
		// The report no longer contains the scan's results of this policy.
		st.parts = slices.DeleteFunc(slices.Clone(st.parts), func(p part) bool { return w.numbers.ids[p.policy()] == o.ID() })
	}
	return true, nil
}

// dated returns the results of a report. A date in the future counts as the oldest date, because other clients may edit reports.
func (w *Writer) dated(held []policyreport.Result) []policyreport.Result {
	latest := w.o.Now().Add(ephemeral.Tolerance).Unix()
	out := slices.Clone(held)
	for i := range out {
		if out[i].Timestamp.Seconds > latest {
			out[i].Timestamp.Seconds = 0
		}
	}
	return out
}
