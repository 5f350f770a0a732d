package ephemeral

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	reportsv1 "ephor.invalid/ephor/api/reports/v1"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/seal"
)

// keyring implements Keys with one ring.
type keyring struct{ *seal.Keyring }

func (k keyring) Ring(context.Context) (*seal.Keyring, error)  { return k.Keyring, nil }
func (k keyring) Fresh(context.Context) (*seal.Keyring, error) { return k.Keyring, nil }

func keysOf(t testing.TB, b byte) keyring {
	t.Helper()
	k, err := seal.NewKey(bytes.Repeat([]byte{b}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	r, err := seal.NewKeyring(k)
	if err != nil {
		t.Fatal(err)
	}
	return keyring{r}
}

// bench is an API server with a Store, whose time only the test changes.
type bench struct {
	client.Client
	*Objects
	now     time.Time
	reasons []string
	log     bytes.Buffer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := reportsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := &bench{Client: fake.NewClientBuilder().WithScheme(scheme).Build(), now: time.Unix(10_000, 0)}
	b.Objects = NewStore(b.Client, Admission, 100, keysOf(t, 1), &Doubts{
		Count: func(why string) { b.reasons = append(b.reasons, why) },
		Log:   slog.New(slog.NewTextHandler(&b.log, nil)), Now: func() time.Time { return b.now },
	})
	return b
}

func (b *bench) write(t *testing.T, results ...policyreport.Result) *reportsv1.EphemeralReport {
	t.Helper()
	r := &Report{
		Resource: report.Resource{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "p", UID: "u"},
		GVR:      schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Results: results,
	}
	if full, err := b.Write(t.Context(), r); full || err != nil {
		t.Fatal(full, err)
	}
	return b.read(t)
}

func (b *bench) read(t *testing.T) *reportsv1.EphemeralReport {
	t.Helper()
	o := &reportsv1.EphemeralReport{}
	if err := b.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "u-admission"}, o); err != nil {
		t.Fatal(err)
	}
	return o
}

func resultOf(rule string, status policyreport.Status, seconds int64) policyreport.Result {
	return policyreport.Result{
		Source: "kyverno", Policy: "p", Rule: rule, Result: status, Message: "m", Scored: true, Category: "c", Severity: "high",
		Properties: map[string]string{"a": "b", "c": "d"}, Timestamp: metav1.Timestamp{Seconds: seconds},
	}
}

// A report counts only if it is as a controller wrote it: every field that is read is sealed.
func TestT10Seal(t *testing.T) {
	b := newBench(t)
	good := b.write(t, resultOf("x", "fail", 9_000), resultOf("y", "pass", 9_001))
	if doubt, err := Check(t.Context(), keysOf(t, 1), good); doubt || err != nil {
		t.Fatalf("our own report: %v", err)
	}
	if doubt, err := Check(t.Context(), keysOf(t, 2), good); !doubt || !errors.Is(err, ErrOtherKey) {
		t.Errorf("a report of another installation: %v %v", doubt, err)
	}
	for name, c := range map[string]struct {
		change func(o *reportsv1.EphemeralReport)
		want   error
	}{
		"no seal":               {func(o *reportsv1.EphemeralReport) { delete(o.Annotations, SealAnnotation) }, ErrUnsealed},
		"a seal without a time": {func(o *reportsv1.EphemeralReport) { o.Annotations[SealAnnotation] = "x" }, ErrUnsealed},
		"another time": {func(o *reportsv1.EphemeralReport) {
			o.Annotations[SealAnnotation] = "9" + o.Annotations[SealAnnotation]
		}, ErrForged},
		"another namespace":    {func(o *reportsv1.EphemeralReport) { o.Namespace = "other" }, ErrForged},
		"another name":         {func(o *reportsv1.EphemeralReport) { o.Name = "v-admission" }, ErrForged},
		"another source":       {func(o *reportsv1.EphemeralReport) { o.Labels[SourceLabel] = string(Background) }, ErrForged},
		"another UID":          {func(o *reportsv1.EphemeralReport) { o.Labels[uidKey] = "v" }, ErrForged},
		"another kind":         {func(o *reportsv1.EphemeralReport) { o.Labels[kindKey] = "Secret" }, ErrForged},
		"another group":        {func(o *reportsv1.EphemeralReport) { o.Labels[groupKey] = "apps" }, ErrForged},
		"another resource":     {func(o *reportsv1.EphemeralReport) { o.Labels[gvrKey] = "secrets.v1" }, ErrForged},
		"another name of it":   {func(o *reportsv1.EphemeralReport) { o.Annotations[nameKey] = "q" }, ErrForged},
		"another status":       {func(o *reportsv1.EphemeralReport) { o.Spec.Results[0].Result = "pass" }, ErrForged},
		"another rule":         {func(o *reportsv1.EphemeralReport) { o.Spec.Results[0].Rule = "z" }, ErrForged},
		"another policy":       {func(o *reportsv1.EphemeralReport) { o.Spec.Results[0].Policy = "q" }, ErrForged},
		"another engine":       {func(o *reportsv1.EphemeralReport) { o.Spec.Results[0].Source = "q" }, ErrForged},
		"another message":      {func(o *reportsv1.EphemeralReport) { o.Spec.Results[0].Message = "n" }, ErrForged},
		"another severity":     {func(o *reportsv1.EphemeralReport) { o.Spec.Results[0].Severity = "low" }, ErrForged},
		"another category":     {func(o *reportsv1.EphemeralReport) { o.Spec.Results[0].Category = "" }, ErrForged},
		"another score":        {func(o *reportsv1.EphemeralReport) { o.Spec.Results[0].Scored = false }, ErrForged},
		"another date":         {func(o *reportsv1.EphemeralReport) { o.Spec.Results[0].Timestamp.Seconds = 3976300800 }, ErrForged},
		"another property":     {func(o *reportsv1.EphemeralReport) { o.Spec.Results[0].Properties["a"] = "c" }, ErrForged},
		"one property more":    {func(o *reportsv1.EphemeralReport) { o.Spec.Results[0].Properties["e"] = "" }, ErrForged},
		"one result less":      {func(o *reportsv1.EphemeralReport) { o.Spec.Results = o.Spec.Results[:1] }, ErrForged},
		"an object made later": {func(o *reportsv1.EphemeralReport) { o.CreationTimestamp = metav1.NewTime(b.now.Add(time.Hour)) }, ErrReplayed},
		"an object kept for later": {func(o *reportsv1.EphemeralReport) {
			at := metav1.NewTime(b.now.Add(time.Hour))
			o.DeletionTimestamp, o.Finalizers = &at, []string{"example.com/keep"}
		}, ErrReplayed},
		"an object made by a clock that is ahead": {func(o *reportsv1.EphemeralReport) { o.CreationTimestamp = metav1.NewTime(b.now.Add(Tolerance)) }, nil},
	} {
		o := good.DeepCopy()
		c.change(o)
		if doubt, err := Check(t.Context(), keysOf(t, 1), o); !errors.Is(err, c.want) || doubt != (c.want != nil) {
			t.Errorf("%s: doubt %v, %v; want %v", name, doubt, err, c.want)
		}
	}
	cluster := &reportsv1.ClusterEphemeralReport{ObjectMeta: *good.ObjectMeta.DeepCopy(), Spec: good.Spec}
	if _, err := Check(t.Context(), keysOf(t, 1), cluster); !errors.Is(err, ErrForged) {
		t.Errorf("as another kind of report: %v", err)
	}
}

// Content that another client put into a report is not sealed together with the next result; our own content is kept.
func TestT10NothingOfOthersIsSealed(t *testing.T) {
	b := newBench(t)
	forged := &reportsv1.EphemeralReport{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "u-admission", Labels: map[string]string{uidKey: "u", "cpol.kyverno.io/q": "1"}, Annotations: map[string]string{nameKey: "q"}},
		Spec:       reportsv1.EphemeralReportSpec{Results: []policyreport.Result{resultOf("x", "pass", 3976300800), resultOf("z", "pass", 1)}},
	}
	if err := b.Create(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	o := b.write(t, resultOf("x", "fail", 9_000))
	if doubt, err := Check(t.Context(), keysOf(t, 1), o); doubt || err != nil {
		t.Errorf("not sealed: %v", err)
	}
	if len(o.Spec.Results) != 1 || o.Spec.Results[0].Result != "fail" || o.Labels["cpol.kyverno.io/q"] != "" || o.Annotations[nameKey] != "p" {
		t.Errorf("the report is %+v", o)
	}
	if o = b.write(t, resultOf("y", "pass", 9_001)); len(o.Spec.Results) != 2 {
		t.Errorf("what we wrote is lost: %+v", o.Spec.Results)
	}
	if doubt, err := Check(t.Context(), keysOf(t, 1), o); doubt || err != nil {
		t.Errorf("not sealed anew: %v", err)
	}
	// The same results are written again if the object was changed.
	o.Labels[uidKey] = "v"
	if err := b.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if o = b.write(t, resultOf("x", "fail", 9_002), resultOf("y", "pass", 9_002)); o.Labels[uidKey] != "u" {
		t.Errorf("left as it was: %+v", o)
	}
	if strings.Join(b.reasons, ",") != "no seal,forged" {
		t.Errorf("counted: %v", b.reasons)
	}
	if lines := strings.Count(b.log.String(), "\n"); lines != 1 || !strings.Contains(b.log.String(), "u-admission") {
		t.Errorf("%d lines in a minute:\n%s", lines, b.log.String())
	}
	b.now = b.now.Add(doubtEvery)
	b.doubts.Report(o, ErrForged)
	if !strings.Contains(b.log.String(), "others=1") {
		t.Errorf("the next line does not tell of the one before:\n%s", b.log.String())
	}
}

// Text with invalid UTF-8 is sealed in the form in which it will be read.
func TestSealOfUnreadableText(t *testing.T) {
	b := newBench(t)
	x := resultOf("x", "fail", 9_000)
	x.Message, x.Properties = "a\xff\xfeb", map[string]string{"p": "\xff"}
	o := b.write(t, x)
	if doubt, err := Check(t.Context(), keysOf(t, 1), o); doubt || err != nil {
		t.Errorf("%v: %+v", err, o.Spec.Results)
	}
}

// Without keys nothing is written, and no report is considered forged.
func TestWithoutKeys(t *testing.T) {
	b := newBench(t)
	good := b.write(t, resultOf("x", "fail", 9_000))
	down := noKeys{errors.New("no answer")}
	if doubt, err := Check(t.Context(), down, good); doubt || !errors.Is(err, down.err) {
		t.Errorf("%v %v", doubt, err)
	}
	s := NewStore(b.Client, Admission, 100, down, &Doubts{Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: time.Now})
	if _, err := s.Write(t.Context(), &Report{Resource: report.Resource{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "q", UID: "w"}}); !errors.Is(err, down.err) {
		t.Errorf("written without a seal: %v", err)
	}
}

type noKeys struct{ err error }

func (n noKeys) Ring(context.Context) (*seal.Keyring, error)  { return nil, n.err }
func (n noKeys) Fresh(context.Context) (*seal.Keyring, error) { return nil, n.err }

func BenchmarkSeal(b *testing.B) {
	o := &reportsv1.EphemeralReport{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "u-admission"}}
	for range 20 {
		o.Spec.Results = append(o.Spec.Results, resultOf("x", "fail", 9_000))
	}
	keys, now := keysOf(b, 1), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		sealReport(keys.Keyring, o, now)
	}
}
