package reports

import (
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/report"
)

// Sources follow the reports. Ready is closed once the Writer knows all of them.
func (w *Writer) Sources() []controller.Source {
	var out []controller.Source
	missing := new(atomic.Int32)
	for _, gvr := range []schema.GroupVersionResource{w.o.Form.Namespaced, w.o.Form.Cluster} {
		missing.Add(1)
		out = append(out, w.source(gvr, sync.OnceFunc(func() {
			if missing.Add(-1) == 0 {
				close(w.ready)
			}
		})))
	}
	return out
}

// Ready returns a channel that is closed once the Writer knows all reports.
func (w *Writer) Ready() <-chan struct{} { return w.ready }

const ours = report.ManagedLabel + "=" + report.ManagedValue

// source follows one kind, and calls ready when all of its reports are known.
func (w *Writer) source(gvr schema.GroupVersionResource, ready func()) controller.Source {
	var names map[types.NamespacedName]bool // during a list
	r := &controller.Reflector[*metav1.PartialObjectMetadata]{From: controller.From(w.o.Metadata.Resource(gvr)), Options: metav1.ListOptions{LabelSelector: ours}}
	r.Sink = controller.Sink[*metav1.PartialObjectMetadata]{
		Begin: func() { names = map[types.NamespacedName]bool{} },
		Seen: func(m *metav1.PartialObjectMetadata) error {
			if names != nil {
				names[types.NamespacedName{Namespace: m.Namespace, Name: m.Name}] = true
			}
			w.saw(m)
			return nil
		},
		Gone: w.missed,
		Listed: func(version string) error {
			w.listed(names, version, gvr == w.o.Form.Cluster)
			names = nil
			ready()
			return nil
		},
		Failed: func(err error, pause time.Duration) {
			w.o.Log.Warn("cannot follow reports, will try again", "kind", gvr.Resource, "in", pause, "error", err)
		},
	}
	return r
}

// listed forgets the reports of a kind that are not in a list of that version, and requests that they be written again.
func (w *Writer) listed(names map[types.NamespacedName]bool, version string, cluster bool) {
	type lost struct {
		uid string
		st  *state
	}
	var gone []lost
	w.mu.Lock()
	for key, st := range w.known {
		// The list does not contain reports that were written after it.
		if !names[key] && (key.Namespace == "") == cluster && !st.writing && !newer(st.version, version) {
			gone = append(gone, lost{key.Name, st})
			delete(w.known, key)
		}
	}
	w.mu.Unlock()
	for _, l := range gone {
		w.again(l.uid, l.st)
	}
}

// saw records the state of an existing report.
func (w *Writer) saw(m *metav1.PartialObjectMetadata) {
	w.mu.Lock()
	key := types.NamespacedName{Namespace: w.shared(m.Namespace), Name: m.Name}
	st := w.known[key]
	fresh := st == nil
	if fresh {
		st = &state{namespace: key.Namespace}
		w.known[key] = st
	}
	strange := false
	switch {
	case st.writing:
		if newer(m.ResourceVersion, st.foreign) {
			st.foreign = m.ResourceVersion
		}
	case fresh || newer(m.ResourceVersion, st.version):
		st.version, st.loaded, strange = m.ResourceVersion, false, true
		w.owned(st, m.OwnerReferences)
	}
	again := *st
	w.mu.Unlock()
	if strange {
		w.again(m.Name, &again)
	}
}

// missed records the deletion of a report, together with its resource or by another client.
func (w *Writer) missed(m *metav1.PartialObjectMetadata) {
	w.mu.Lock()
	key := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
	st := w.known[key]
	if st != nil && st.writing && newer(m.ResourceVersion, st.gone) {
		st.gone = m.ResourceVersion // end compares it with what was written
	}
	if st == nil || st.writing || newer(st.version, m.ResourceVersion) {
		w.mu.Unlock()
		return
	}
	delete(w.known, key)
	again := *st
	w.mu.Unlock()
	w.again(m.Name, &again)
}
