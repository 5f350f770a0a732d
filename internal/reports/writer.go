package reports

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyreport "github.com/ephor-dev/ephor/api/policyreport/v1alpha2"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/report"
)

// Options of a Writer. All are required, but for those that say so.
type Options struct {
	// Client reads and writes reports past any cache; Metadata lists and watches them.
	Client   client.Client
	Metadata metadata.Interface
	// Allowed are the statuses that are reported; nil for all.
	Allowed report.Allowed
	// Again is asked to judge a resource again, whose report somebody else changed or deleted. It must not wait.
	Again func(gk schema.GroupKind, namespace, name, uid string)

	Log *slog.Logger
	Now func() time.Time
}

// Writer writes the reports of the resources. It is safe for several goroutines, but one resource is for one at a time.
type Writer struct {
	o Options

	mu    sync.Mutex
	known map[string]*state // by UID of the resource, which is the name of the report
}

// state is what is known of a report that exists.
type state struct {
	namespace string
	version   string // the newest that was seen
	owner     metav1.OwnerReference
	// digest stands for what the report says; it counts where told is set.
	digest uint64
	told   bool
	// writing: a write is on its way, and newer versions that are seen meanwhile may be its own. foreign is the newest of
	// those.
	writing bool
	foreign string
}

// New returns a Writer that knows no reports yet.
func New(o Options) *Writer { return &Writer{o: o, known: map[string]*state{}} }

// conflicts is how often a write is tried again that somebody else was faster with.
const conflicts = 3

// Put makes the report of the request's object say what the outcome holds; without results there is no report. It says
// whether that changed anything.
func (w *Writer) Put(ctx context.Context, out policy.Outcome) (changed bool, err error) {
	resource := report.ResourceOf(out.Request)
	if resource.UID == "" {
		return false, nil // nothing can be owned by it
	}
	entries := w.o.Allowed.Keep(report.Entries(out, report.Options{}))
	if len(entries) == 0 {
		return w.remove(ctx, resource.UID)
	}
	results, summary := report.Results(entries, w.o.Now().Unix())
	content := policyreport.ReportContent{Scope: resource.Scope(), Summary: summary, Results: results}
	want := digest(resource.Owner(), &content)
	if w.says(resource.UID, want) {
		return false, nil
	}
	st := w.begin(resource)
	defer func() { w.end(resource.UID, st) }()
	for range conflicts {
		changed, err = w.write(ctx, resource, &content, want, st)
		switch {
		case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) && !namespaceGone(err):
			w.forgetVersion(st)
			continue
		case namespaceGone(err):
			return false, nil // and the resource with it
		}
		return changed, err
	}
	return false, err
}

// namespaceGone reports whether nothing can be written because the namespace is gone or going.
func namespaceGone(err error) bool {
	var s apierrors.APIStatus
	if apierrors.HasStatusCause(err, "NamespaceTerminating") {
		return true
	}
	return errors.As(err, &s) && apierrors.IsNotFound(err) && s.Status().Details != nil && s.Status().Details.Kind == "namespaces"
}

// says reports whether the report is known to say just that.
func (w *Writer) says(uid string, want uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	st := w.known[uid]
	return st != nil && st.told && st.version != "" && st.digest == want
}

// begin says that a write is on its way. The state has no version when no report is known.
func (w *Writer) begin(r *report.Resource) *state {
	w.mu.Lock()
	defer w.mu.Unlock()
	st := w.known[r.UID]
	if st == nil {
		st = &state{namespace: r.Namespace, owner: r.Owner()}
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
		st.version, st.told = st.foreign, false
	}
	w.mu.Unlock()
	if strange {
		w.again(uid, st)
	}
}

// forgetVersion makes the next write look first.
func (w *Writer) forgetVersion(st *state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	st.version, st.told = "?", false
}

// write creates the report, or updates it unless it says all that already.
func (w *Writer) write(ctx context.Context, r *report.Resource, content *policyreport.ReportContent, want uint64, st *state) (bool, error) {
	w.mu.Lock()
	version, told := st.version, st.told
	w.mu.Unlock()
	object, into := newReport(r)
	*into = *content
	if version != "" && !told {
		existing, found := newReport(r)
		err := w.o.Client.Get(ctx, client.ObjectKeyFromObject(existing), existing)
		switch {
		case apierrors.IsNotFound(err):
			version = ""
		case err != nil:
			return false, err
		default:
			version = existing.GetResourceVersion()
			if owners := existing.GetOwnerReferences(); len(owners) == 1 && existing.GetLabels()[report.ManagedLabel] == report.ManagedValue &&
				digest(owners[0], found) == want {
				w.wrote(st, r, version, want)
				return false, nil
			}
		}
	}
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
	w.wrote(st, r, object.GetResourceVersion(), want)
	return true, nil
}

func (w *Writer) wrote(st *state, r *report.Resource, version string, want uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	st.version, st.digest, st.told, st.owner, st.namespace = version, want, true, r.Owner(), r.Namespace
}

// newReport is the report of the resource without content, and where that goes.
func newReport(r *report.Resource) (client.Object, *policyreport.ReportContent) {
	meta := metav1.ObjectMeta{
		Name: r.UID, Namespace: r.Namespace, Labels: map[string]string{report.ManagedLabel: report.ManagedValue},
		OwnerReferences: []metav1.OwnerReference{r.Owner()},
	}
	if r.Namespace == "" {
		o := &policyreport.ClusterPolicyReport{ObjectMeta: meta}
		return o, &o.ReportContent
	}
	o := &policyreport.PolicyReport{ObjectMeta: meta}
	return o, &o.ReportContent
}

// remove deletes the report of the resource, if there is one.
func (w *Writer) remove(ctx context.Context, uid string) (bool, error) {
	w.mu.Lock()
	st := w.known[uid]
	w.mu.Unlock()
	if st == nil {
		return false, nil
	}
	object, _ := newReport(&report.Resource{UID: uid, Namespace: st.namespace})
	if err := w.o.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("delete the report %s: %w", uid, err)
	}
	w.mu.Lock()
	delete(w.known, uid)
	w.mu.Unlock()
	return true, nil
}

// Prune deletes the reports of resources whose kinds are not scanned any longer.
func (w *Writer) Prune(ctx context.Context, scanned func(schema.GroupKind) bool) error {
	var gone []string
	w.mu.Lock()
	for uid, st := range w.known {
		if st.owner.Kind != "" && !scanned(groupKind(st.owner)) {
			gone = append(gone, uid)
		}
	}
	w.mu.Unlock()
	var errs []error
	for _, uid := range gone {
		if _, err := w.remove(ctx, uid); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func groupKind(o metav1.OwnerReference) schema.GroupKind {
	return schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).GroupKind()
}

// Reports is the number of reports that are known to exist.
func (w *Writer) Reports() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.known)
}

func (w *Writer) again(uid string, st *state) {
	if st.owner.Kind != "" {
		w.o.Again(groupKind(st.owner), st.namespace, st.owner.Name, uid)
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
