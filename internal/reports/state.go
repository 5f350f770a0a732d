package reports

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyreport "github.com/ephor-dev/ephor/api/policyreport/v1alpha2"
	"github.com/ephor-dev/ephor/internal/report"
)

// state is what is known of a report that exists.
type state struct {
	namespace, apiVersion, kind, name string // of the resource
	version                           string // the newest that was seen
	// parts stand for the results of scans that the report holds; they count if loaded is set.
	parts  []part
	loaded bool
	// others are the rules whose results it holds besides, as those of admission; they count where loaded is set.
	others []*report.Rule
	// writing: a write is on its way, and newer versions that are seen meanwhile may be its own. foreign is the newest of
	// those.
	writing bool
	foreign string
}

func (st *state) groupKind() schema.GroupKind {
	return schema.FromAPIVersionAndKind(st.apiVersion, st.kind).GroupKind()
}

// about makes the state one about the resource. w.mu is held.
func (w *Writer) about(st *state, r *report.Resource) {
	st.namespace, st.apiVersion, st.kind, st.name = w.shared(r.Namespace), w.shared(r.APIVersion), w.shared(r.Kind), r.Name
}

// resource is what the report is about.
func (st *state) resource(uid string) *report.Resource {
	return &report.Resource{APIVersion: st.apiVersion, Kind: st.kind, Namespace: st.namespace, Name: st.name, UID: uid}
}

// owned takes in the owner that a report names.
func (w *Writer) owned(st *state, owners []metav1.OwnerReference) {
	if len(owners) > 0 {
		st.apiVersion, st.kind, st.name = w.shared(owners[0].APIVersion), w.shared(owners[0].Kind), owners[0].Name
	}
}

// shared is the text, once for all states that hold it. w.mu is held.
func (w *Writer) shared(text string) string {
	if have, ok := w.texts[text]; ok {
		return have
	}
	w.texts[text] = text
	return text
}

// rulesOf are the rules of results; all states share one for each.
func (w *Writer) rulesOf(results []policyreport.Result) []*report.Rule {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*report.Rule
	for i := range results {
		key := report.RuleOf(&results[i])
		shared := w.rules[key]
		if shared == nil {
			shared = &key
			w.rules[key] = shared
		}
		if !slices.Contains(out, shared) {
			out = append(out, shared)
		}
	}
	return out
}

// says reports whether the report is known to say just that.
func (w *Writer) says(uid string, want []part, evaluated *report.Evaluated) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	st := w.known[uid]
	if st == nil || !st.loaded || st.version == "" || slices.ContainsFunc(st.others, func(r *report.Rule) bool { return evaluated.Replaces(*r) }) {
		return false
	}
	return slices.Equal(w.numbers.only(st.parts, evaluated.Policies), want)
}

// begin says that a write is on its way. The state has no version when no report is known.
func (w *Writer) begin(r *report.Resource) *state {
	w.mu.Lock()
	defer w.mu.Unlock()
	st := w.known[r.UID]
	if st == nil {
		st = &state{}
		w.about(st, r)
		w.known[r.UID] = st
	}
	st.writing, st.foreign = true, ""
	return st
}

// end takes in what was seen during the write.
func (w *Writer) end(uid string, st *state) {
	w.mu.Lock()
	st.writing = false
	if st.version == "" {
		delete(w.known, uid)
	}
	strange := newer(st.foreign, st.version)
	if strange {
		st.version, st.loaded = st.foreign, false
	}
	again := *st
	w.mu.Unlock()
	if strange {
		w.again(uid, &again)
	}
}

// forgetVersion makes the next write look first.
func (w *Writer) forgetVersion(st *state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	st.version, st.loaded = "?", false
}

// again asks for what the report should say.
func (w *Writer) again(uid string, st *state) {
	if st.kind != "" {
		w.o.Again(st.groupKind(), st.namespace, st.name, uid)
	}
}

// newer reports whether version a was written after b. Versions that are no numbers are not compared: another one is
// taken for a newer one.
func newer(a, b string) bool {
	if a == "" || a == b {
		return false
	}
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX != nil || errY != nil || x > y
}
