package reports

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/scan"
)

// Prune removes outdated results from reports: those of scans of kinds that are no longer scanned, and those of deleted rules. mine
// selects the resources of this process; nil for all.
func (w *Writer) Prune(ctx context.Context, scanned func(schema.GroupKind) bool, rules scan.Rules, mine func(gk schema.GroupKind, namespace string) bool) error {
	living := &report.Evaluated{Elsewhere: rules.Live}
	var errs []error
	for key, st := range w.stale(scanned, rules) {
		switch {
		case mine != nil && !mine(st.groupKind(), st.namespace):
		case !scanned(st.groupKind()):
			kind := st.groupKind()
			unscanned := &report.Evaluated{Elsewhere: func(r report.Rule) bool { return rules.Elsewhere(kind, r) }}
			errs = append(errs, w.reduce(ctx, st.resource(key.Name), unscanned))
		default:
			errs = append(errs, w.reduce(ctx, st.resource(key.Name), living))
			w.forgetContent(key) // the next scan decides about its results
		}
	}
	return errors.Join(errs...)
}

// stale returns the reports that may hold outdated results.
func (w *Writer) stale(scanned func(schema.GroupKind) bool, rules scan.Rules) map[types.NamespacedName]state {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[types.NamespacedName]state{}
	for key, st := range w.known {
		stale := false
		if scanned(st.groupKind()) {
			stale = slices.ContainsFunc(st.others, func(r *report.Rule) bool { return !rules.Live(*r) })
		} else if st.kind != "" {
			stale = !st.loaded || len(st.parts) > 0 || slices.ContainsFunc(st.others, func(r *report.Rule) bool { return !rules.Elsewhere(st.groupKind(), *r) })
		}
		if stale {
			out[key] = *st
		}
	}
	return out
}

// forgetContent makes the next write read the report first.
func (w *Writer) forgetContent(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if st := w.known[key]; st != nil {
		st.loaded, st.parts, st.others = false, nil, nil
	}
}

// reduce keeps only the results of other processes in a report.
func (w *Writer) reduce(ctx context.Context, r *report.Resource, evaluated *report.Evaluated) error {
	done, err := w.alone(ctx, r.UID)
	if err != nil {
		return err
	}
	defer done()
	_, err = w.put(ctx, r, nil, evaluated)
	return err
}

// Reports returns the number of known reports.
func (w *Writer) Reports() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.known)
}
