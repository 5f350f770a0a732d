package reports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	reportsv1 "ephor.invalid/ephor/api/reports/v1"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/seal"
)

// oneKey is a fixed key that all participants know.
type oneKey struct{ *seal.Keyring }

func (k oneKey) Ring(context.Context) (*seal.Keyring, error)  { return k.Keyring, nil }
func (k oneKey) Fresh(context.Context) (*seal.Keyring, error) { return k.Keyring, nil }

// desk is a Consumer on an API server that has one Pod, p with the UID u in the namespace a.
type desk struct {
	*Consumer
	client  client.WithWatch
	store   *ephemeral.Objects
	reasons []string
	down    error // error of looking up the Pod
	there   bool
	ahead   time.Duration // how far our clock is ahead
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(reportsv1.AddToScheme(scheme), policyreport.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	key, err := seal.NewKey(bytes.Repeat([]byte{1}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := seal.NewKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{client: fake.NewClientBuilder().WithScheme(scheme).Build(), there: true}
	now := func() time.Time { return time.Now().Add(d.ahead) }
	api := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
	api.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if d.down != nil || !d.there {
			return d.down != nil, nil, d.down
		}
		return true, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: "u"}}, nil
	})
	doubts := &ephemeral.Doubts{Count: func(why string) { d.reasons = append(d.reasons, why) }, Log: slog.New(slog.DiscardHandler), Now: now}
	d.store = ephemeral.NewStore(d.client, ephemeral.Admission, 100, oneKey{ring}, doubts)
	d.Consumer = NewConsumer(ConsumerOptions{
		Writer: New(Options{Client: d.client, Metadata: api, Form: PolicyReports, Log: slog.New(slog.DiscardHandler), Now: now}),
		Client: d.client, Metadata: api, Keys: oneKey{ring}, Doubts: doubts,
		Wanted: func(kind schema.GroupKind) func(report.Rule) bool {
			return func(r report.Rule) bool { return r.Name != "scanned" || kind.Kind != "Pod" }
		},
		Workers: 1, Log: slog.New(slog.DiscardHandler), Now: now,
	})
	return d
}

var pod = report.Resource{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: "p", UID: "u"}

func (d *desk) send(t *testing.T, results ...policyreport.Result) {
	t.Helper()
	_, err := d.store.Write(t.Context(), &ephemeral.Report{Resource: pod, GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Results: results})
	if err != nil {
		t.Fatal(err)
	}
}

// consume handles the EphemeralReports that exist, and returns how many then exist, and when to try again.
func (d *desk) consume(t *testing.T) (exist int, again time.Duration, err error) {
	t.Helper()
	list := func() (all reportsv1.EphemeralReportList) {
		if err := d.client.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	keys := map[string]bool{}
	for _, o := range list().Items {
		if o.CreationTimestamp.IsZero() {
			o.CreationTimestamp = metav1.Now() // as an API server does
		}
		d.see(t.Context(), &o)
		keys[keyOf(&o)] = true
	}
	for key := range keys {
		wait, failed := d.Reconcile(t.Context(), key)
		again, err = max(again, wait), errors.Join(err, failed)
	}
	if !d.room.TryAcquire(maxMemory) || len(d.Consumer.waiting) != 0 {
		t.Fatalf("%d resources are in memory, or take room", len(d.Consumer.waiting))
	}
	d.room.Release(maxMemory)
	return len(list().Items), again, err
}

func (d *desk) says(t *testing.T) string {
	t.Helper()
	var o policyreport.PolicyReport
	if err := d.client.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "u"}, &o); err != nil {
		return ""
	}
	var out []string
	for _, r := range o.Results {
		out = append(out, fmt.Sprintf("%s=%s@%d", r.Rule, r.Result, r.Timestamp.Seconds))
	}
	return strings.Join(out, " ")
}

func result(rule string, status policyreport.Status, seconds int64) policyreport.Result {
	return policyreport.Result{Source: "kyverno", Policy: "p", Rule: rule, Result: status, Timestamp: metav1.Timestamp{Seconds: seconds}}
}

// Results wait for their resource, which is not a failure; an API server that does not answer is one.
func TestWaitingIsNoFailure(t *testing.T) {
	d := newDesk(t)
	d.there = false
	d.send(t, result("x", "fail", 10))
	if n, again, err := d.consume(t); n != 1 || again != retryTake || err != nil {
		t.Errorf("waiting: %d, %v, %v", n, again, err)
	}
	d.down = errors.New("no answer")
	if n, _, err := d.consume(t); n != 1 || err == nil {
		t.Errorf("no answer: %d, %v", n, err)
	}
}

// A report that is merged and cannot be deleted is left, and deleted later. Everything is listed again for it after growing pauses.
func TestReportsThatCannotBeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		refused := true
		d.Consumer.o.Client = interceptor.NewClient(d.client, interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if refused {
					return apierrors.NewForbidden(schema.GroupResource{}, o.GetName(), errors.New("no right"))
				}
				return c.Delete(ctx, o, opts...)
			},
		})
		lists := 0
		d.Consumer.lists[0] = func() { lists++ }
		d.send(t, result("x", "fail", 10))
		round := func() {
			t.Helper()
			if n, _, err := d.consume(t); n != 1 || err == nil {
				t.Fatalf("%d reports, %v", n, err)
			}
			for before := lists; lists == before; {
				wait, err := d.Reconcile(t.Context(), "u")
				if err != nil || lists == before && wait == 0 {
					t.Fatal("the report is forgotten", err)
				}
				time.Sleep(wait)
			}
		}
		began := time.Now()
		for time.Since(began) < time.Hour {
			round()
		}
		if lists > 20 {
			t.Errorf("everything was listed %d times in an hour", lists)
		}
		refused = false
		if n, again, err := d.consume(t); n != 0 || again != 0 || err != nil {
			t.Errorf("%d reports are left, %v, %v", n, again, err)
		}
	})
}

// A report without results of scans is not deleted if another replica has added results meanwhile.
func TestResultsOfAnotherReplicaStay(t *testing.T) {
	d := newDesk(t)
	other := New(d.Consumer.o.Writer.o)
	elsewhere := &report.Evaluated{Elsewhere: func(r report.Rule) bool { return r.Name == "admission" }}
	if _, err := other.put(t.Context(), &pod, []policyreport.Result{result("scan", "fail", 10)}, elsewhere); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Consumer.o.Writer.Add(t.Context(), &pod, []policyreport.Result{result("admission", "fail", 10)}); err != nil {
		t.Fatal(err)
	}
	if _, err := other.put(t.Context(), &pod, nil, elsewhere); err != nil {
		t.Fatal(err)
	}
	if got := d.says(t); got != "admission=fail@10" {
		t.Errorf("the report says %q", got)
	}
}

// Reports of our controllers are merged. Others are deleted and counted, and change nothing. Results of rules that scans evaluate, and
// dates in the future, do not count in either.
func TestT10Taken(t *testing.T) {
	d := newDesk(t)
	take := func() {
		t.Helper()
		if n, again, err := d.consume(t); n != 0 || again != 0 || err != nil {
			t.Errorf("%d reports are left, %v, %v", n, again, err)
		}
	}
	d.send(t, result("x", "fail", 10), result("scanned", "pass", 10))
	take()
	if got := d.says(t); got != "x=fail@10" {
		t.Errorf("our own report gives %s", got)
	}
	// A copy of a report of ours that another client created later.
	d.send(t, result("y", "pass", 11))
	var old reportsv1.EphemeralReport
	if err := d.client.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "u-admission"}, &old); err != nil {
		t.Fatal(err)
	}
	if err := d.client.Delete(t.Context(), old.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	old.ResourceVersion, old.UID, old.CreationTimestamp = "", "", metav1.NewTime(time.Now().Add(time.Hour))
	// And a forged report.
	forged := reportsv1.EphemeralReport{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "z", Labels: old.Labels, Annotations: map[string]string{"audit.kyverno.io/resource.name": "p"}}}
	forged.Spec.Results = []policyreport.Result{result("x", "pass", 3976300800)}
	for _, o := range []client.Object{&old, &forged} {
		if err := d.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	d.reasons = nil
	take()
	if got := d.says(t); got != "x=fail@10" || len(d.reasons) != 2 {
		t.Errorf("reports of others give %s, counted %v", got, d.reasons)
	}
	// Together with a report of ours that has a result.
	d.send(t, result("x", "skip", 20))
	forged.ResourceVersion, forged.UID = "", ""
	if err := d.client.Create(t.Context(), &forged); err != nil {
		t.Fatal(err)
	}
	take()
	if got := d.says(t); got != "x=skip@20" {
		t.Errorf("both together give %s", got)
	}
	// A clock of ours that is ahead.
	before := time.Now().Unix()
	d.send(t, result("x", "warn", 3976300800))
	take()
	var seconds int64
	if _, err := fmt.Sscanf(d.says(t), "x=warn@%d", &seconds); err != nil || seconds < before || seconds > time.Now().Unix() {
		t.Errorf("a date in the future gives %s", d.says(t))
	}
	// A date in the future that another client wrote into the policy report itself.
	var o policyreport.PolicyReport
	if err := d.client.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "u"}, &o); err != nil {
		t.Fatal(err)
	}
	o.Results[0].Result, o.Results[0].Timestamp.Seconds = "pass", 3976300800
	if err := d.client.Update(t.Context(), &o); err != nil {
		t.Fatal(err)
	}
	d.send(t, result("x", "fail", time.Now().Unix()))
	take()
	if got := d.says(t); !strings.HasPrefix(got, "x=fail@") {
		t.Errorf("after a date in the future in the report: %s", got)
	}
}

// A list that ends while its page is handed over leaves no room occupied.
func TestEndedListTakesNoRoom(t *testing.T) {
	d := newDesk(t)
	ended, end := context.WithCancel(t.Context())
	end()
	for i := range 100 {
		d.see(ended, &reportsv1.EphemeralReport{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("r", i)}})
	}
	d.consume(t)
}

// EphemeralReports in memory take a bounded number of bytes: the admin of a namespace may write any number of large ones.
func TestLargeEphemeralReportsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		large := strings.Repeat("x", 1<<20)
		const all = 100
		var seen atomic.Int64
		go func() {
			for i := range all {
				o := &reportsv1.EphemeralReport{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("r", i)}}
				o.Spec.Results = []policyreport.Result{{Policy: "p", Message: large}}
				d.see(t.Context(), o)
				seen.Add(1)
			}
		}()
		for seen.Load() < all {
			synctest.Wait()
			if n := len(d.Consumer.waiting); n == 0 || n > 16 {
				t.Fatalf("%d reports of a megabyte are in memory", n)
			}
			for key := range maps.Clone(d.Consumer.waiting) {
				if _, err := d.Reconcile(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait()
		d.consume(t)
	})
}

// A report of another namespace under the name of one of ours, about the same resource, does not take its place in memory.
func TestT10TwoReportsWithOneName(t *testing.T) {
	d := newDesk(t)
	d.send(t, result("x", "fail", 10))
	var forged reportsv1.EphemeralReport
	if err := d.client.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "u-admission"}, &forged); err != nil {
		t.Fatal(err)
	}
	forged.Namespace, forged.ResourceVersion, forged.UID = "b", "", ""
	if err := d.client.Create(t.Context(), &forged); err != nil {
		t.Fatal(err)
	}
	if n, _, err := d.consume(t); n != 0 || err != nil || d.says(t) != "x=fail@10" || len(d.reasons) != 1 {
		t.Errorf("%d reports are left, %v; the report says %q; rejected: %v", n, err, d.says(t), d.reasons)
	}
}
