package reports

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/report"
)

// state is the known state of an existing report.
type state struct {
	namespace, apiVersion, kind, name string // of the resource
	version                           string // the newest version that was seen
	// parts are the parts of the scan results in the report. They are valid if loaded is set.
	parts  []part
	loaded bool
	// others are the rules of its other results, such as those of admission. They are valid if loaded is set.
	others []*report.Rule
	// writing: a write is in progress, and newer versions may come from it. foreign is the newest version seen meanwhile, and gone that of the
	// last deletion.
	writing       bool
	foreign, gone string
}

func (st *state) groupKind() schema.GroupKind {
	return schema.FromAPIVersionAndKind(st.apiVersion, st.kind).GroupKind()
}

// reportOf identifies the report of a resource. The UID alone does not: users may write reports of that name in their namespaces.
func reportOf(r *report.Resource) types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.UID}
}

// about sets the resource of the state. The caller holds w.mu.
func (w *Writer) about(st *state, r *report.Resource) {
	st.namespace, st.apiVersion, st.kind, st.name = w.shared(r.Namespace), w.shared(r.APIVersion), w.shared(r.Kind), r.Name
}

// resource returns the resource of the report.
func (st *state) resource(uid string) *report.Resource {
	return &report.Resource{APIVersion: st.apiVersion, Kind: st.kind, Namespace: st.namespace, Name: st.name, UID: uid}
}

// owned records the owner of a report.
func (w *Writer) owned(st *state, owners []metav1.OwnerReference) {
	if len(owners) > 0 {
		st.apiVersion, st.kind, st.name = w.shared(owners[0].APIVersion), w.shared(owners[0].Kind), owners[0].Name
	}
}

// maxTexts bounds the shared texts.
const maxTexts = 10_000

// shared returns one copy of the text for all states that contain it. The caller holds w.mu.
func (w *Writer) shared(text string) string {
	if have, ok := w.texts[text]; ok {
		return have
	}
	if len(w.texts) >= maxTexts {
		clear(w.texts) // namespaces come and go
	}
	w.texts[text] = text
	return text
}

// rulesOf returns the rules of results; all states share one value for each rule.
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

// says reports whether the report is known to contain exactly these parts.
func (w *Writer) says(r *report.Resource, want []part, evaluated *report.Evaluated) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	st := w.known[reportOf(r)]
	if st == nil || !st.loaded || st.version == "" || slices.ContainsFunc(st.others, func(r *report.Rule) bool { return evaluated.Replaces(*r) }) {
		return false
	}
	return slices.Equal(w.numbers.only(st.parts, evaluated.Policies), want)
}

// begin records that a write is in progress. The state has no version if no report is known.
func (w *Writer) begin(r *report.Resource) *state {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := reportOf(r)
	st := w.known[key]
	if st == nil {
		st = &state{}
		w.about(st, r)
		key.Namespace = st.namespace
		w.known[key] = st
	}
	st.writing, st.foreign, st.gone = true, "", ""
	return st
}

// end handles the versions and deletions that were seen during the write.
func (w *Writer) end(r *report.Resource, st *state) {
	w.mu.Lock()
	st.writing = false
	gone := st.version != "" && newer(st.gone, st.version) && !newer(st.foreign, st.gone)
	if st.version == "" || gone {
		delete(w.known, reportOf(r))
	}
	strange := !gone && newer(st.foreign, st.version)
	if strange {
		st.version, st.loaded = st.foreign, false
	}
	again := *st
	w.mu.Unlock()
	if strange || gone {
		w.again(r.UID, &again)
	}
}

// forgetVersion makes the next write read the report first.
func (w *Writer) forgetVersion(st *state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	st.version, st.loaded = "?", false
}

// again requests another evaluation of the resource.
func (w *Writer) again(uid string, st *state) {
	if st.kind != "" {
		w.o.Again(st.groupKind(), uid)
	}
}

// newer reports whether version a was written after version b. A version that is not a number counts as newer.
func newer(a, b string) bool {
	if a == "" || a == b {
		return false
	}
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX != nil || errY != nil || x > y
}
