package reports

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/report"
)

// Run follows the reports until ctx is done. It forgets its earlier state, and calls ready once it knows all reports.
func (w *Writer) Run(ctx context.Context, ready func()) {
	w.mu.Lock()
	w.known = map[string]*state{}
	w.mu.Unlock()
	var running, listed sync.WaitGroup
	for _, gvr := range []schema.GroupVersionResource{w.o.Form.Namespaced, w.o.Form.Cluster} {
		listed.Add(1)
		running.Go(func() { w.follow(ctx, gvr, sync.OnceFunc(listed.Done)) })
	}
	all := make(chan struct{})
	go func() { listed.Wait(); close(all) }()
	select {
	case <-all:
		ready()
	case <-ctx.Done():
	}
	running.Wait()
}

const ours = report.ManagedLabel + "=" + report.ManagedValue

// follow lists and watches one kind, and calls ready when it knows all of its reports.
func (w *Writer) follow(ctx context.Context, gvr schema.GroupVersionResource, ready func()) {
	defer ready()
	var names map[types.NamespacedName]bool // during a list
	r := controller.Reflector[*metav1.PartialObjectMetadata]{From: controller.From(w.o.Metadata.Resource(gvr)), Options: metav1.ListOptions{LabelSelector: ours}}
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
	r.Run(ctx)
}

// listed forgets the reports of a kind that are not in a list of that version, and requests that they be written again.
func (w *Writer) listed(names map[types.NamespacedName]bool, version string, cluster bool) {
	type lost struct {
		uid string
		st  *state
	}
	var gone []lost
	w.mu.Lock()
	for uid, st := range w.known {
		// The list does not contain reports that were written after it.
		if !names[types.NamespacedName{Namespace: st.namespace, Name: uid}] && (st.namespace == "") == cluster && !st.writing && !newer(st.version, version) {
			gone = append(gone, lost{uid, st})
			delete(w.known, uid)
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
	st := w.known[m.Name]
	fresh := st == nil
	if fresh {
		st = &state{namespace: w.shared(m.Namespace)}
		w.known[m.Name] = st
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
	st := w.known[m.Name]
	if st != nil && st.writing && newer(m.ResourceVersion, st.gone) {
		st.gone = m.ResourceVersion // end compares it with what was written
	}
	if st == nil || st.writing || newer(st.version, m.ResourceVersion) {
		w.mu.Unlock()
		return
	}
	delete(w.known, m.Name)
	again := *st
	w.mu.Unlock()
	w.again(m.Name, &again)
}
