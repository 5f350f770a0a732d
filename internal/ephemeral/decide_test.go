package ephemeral

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

var podKind = schema.GroupKind{Kind: "Pod"}

// sent returns a rule that scans evaluate, modified by change.
func sent(change func(p *policy.Program, r *policy.Rule)) (*policy.Program, *policy.Rule) {
	p := &policy.Program{Name: "p", Kind: "ClusterPolicy", ResourceVersion: "7", Settings: policy.Settings{Background: true, Scored: true}}
	r := &policy.Rule{Name: "r", Kind: "validate.pattern", Stage: policy.StageValidate, Matching: policy.Matching{Targets: []policy.Target{{Kind: "Pod"}}}}
	p.Rules = []*policy.Rule{r}
	change(p, r)
	return p, r
}

// Who reports what: admission sends what scans do not find again.
func TestSends(t *testing.T) {
	scans := NewScans([]schema.GroupKind{podKind})
	for _, c := range []struct {
		name   string
		change func(p *policy.Program, r *policy.Rule)
		scans  Scans
		want   bool
	}{
		{"a rule that scans evaluate", func(*policy.Program, *policy.Rule) {}, scans, false},
		{"labels of the namespace", func(_ *policy.Program, r *policy.Rule) { r.Needs.NamespaceLabels = true }, scans, false},
		{"lookups", func(_ *policy.Program, r *policy.Rule) { r.Needs.Lookups = true }, scans, false},
		{"operations with CREATE", func(_ *policy.Program, r *policy.Rule) {
			r.Targets[0].Operations = []policy.Operation{policy.Update, policy.Create}
		}, scans, false},
		{"another kind is scanned", func(*policy.Program, *policy.Rule) {}, NewScans([]schema.GroupKind{{Group: "x", Kind: "Pod"}}), true},
		{"nothing is scanned", func(*policy.Program, *policy.Rule) {}, Scans{}, true},
		{"background is off", func(p *policy.Program, _ *policy.Rule) { p.Settings.Background = false }, scans, true},
		{"the user", func(_ *policy.Program, r *policy.Rule) { r.Needs.User = true }, scans, true},
		{"roles", func(_ *policy.Program, r *policy.Rule) { r.Needs.Roles = true }, scans, true},
		{"the operation", func(_ *policy.Program, r *policy.Rule) { r.Needs.Operation = true }, scans, false},
		{"the old object", func(_ *policy.Program, r *policy.Rule) { r.Needs.OldObject = true }, scans, false},
		{"images", func(_ *policy.Program, r *policy.Rule) { r.Needs.Images = true }, scans, false},
		{"operations without CREATE", func(_ *policy.Program, r *policy.Rule) { r.Targets[0].Operations = []policy.Operation{policy.Update} }, scans, true},
		{"CREATE of another kind only", func(_ *policy.Program, r *policy.Rule) {
			r.Targets[0].Operations = []policy.Operation{policy.Update}
			r.Targets = append(r.Targets, policy.Target{Group: "apps", Version: "*", Kind: "Deployment"})
		}, scans, true},
		{"a sub-resource", func(_ *policy.Program, r *policy.Rule) {
			r.Targets = append(r.Targets, policy.Target{Kind: "Pod", Subresource: "ephemeralcontainers"})
		}, scans, false},
		{"only a sub-resource", func(_ *policy.Program, r *policy.Rule) { r.Targets[0].Subresource = "exec" }, scans, true},
		{"what is not known beforehand", func(_ *policy.Program, r *policy.Rule) {
			r.Needs = policy.Needs{User: true, Roles: true, OldObject: true, Operation: true}
		}, scans, false},
		{"mutation", func(_ *policy.Program, r *policy.Rule) { r.Stage = policy.StageMutate }, scans, true},
		{"generation", func(_ *policy.Program, r *policy.Rule) { r.Stage = policy.StageGenerate }, scans, true},
		{"mutation of what exists", func(_ *policy.Program, r *policy.Rule) { r.Stage = policy.StageMutateExisting }, scans, true},
		{"images to verify", func(_ *policy.Program, r *policy.Rule) { r.Stage = policy.StageVerifyImages }, scans, false},
		{"images without signatures", func(_ *policy.Program, r *policy.Rule) {
			r.NoScan, r.Stage = true, policy.StageVerifyImages|policy.StageValidate
		}, scans, true},
		{"a policy that is in no report", func(p *policy.Program, r *policy.Rule) {
			p.Labels, r.Stage = map[string]string{DisabledLabel: ""}, policy.StageMutate
		}, Scans{}, false},
	} {
		p, r := sent(c.change)
		if got := Sends(p, r, podKind, c.scans); got != c.want {
			t.Errorf("%s: sent is %v, want %v", c.name, got, c.want)
		}
	}
}

func TestReporting(t *testing.T) {
	for want, r := range map[string]policy.Rule{
		"validate":       {Stage: policy.StageValidate, Kind: "validate.deny"},
		"mutate":         {Stage: policy.StageMutate},
		"mutateExisting": {Stage: policy.StageMutateExisting},
		"generate":       {Stage: policy.StageGenerate},
		"imageVerify":    {Stage: policy.StageVerifyImages | policy.StageValidate},
	} {
		if got := Reporting(&r); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Results that no report contains, whichever process found them.
func TestReportable(t *testing.T) {
	base := policy.Request{Review: policy.Review{Operation: policy.Create, GVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}}}
	for name, c := range map[string]struct {
		change func(*policy.Request)
		want   bool
	}{
		"a creation":     {func(*policy.Request) {}, true},
		"an update":      {func(r *policy.Request) { r.Operation = policy.Update }, true},
		"a deletion":     {func(r *policy.Request) { r.Operation = policy.Delete }, false},
		"a dry run":      {func(r *policy.Request) { r.DryRun = true }, false},
		"a sub-resource": {func(r *policy.Request) { r.Subresource = "exec" }, false},
		"an event": {func(r *policy.Request) {
			r.GVK = schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}
		}, false},
		"a report":         {func(r *policy.Request) { r.GVK.Group = "wgpolicyk8s.io" }, false},
		"what it is about": {func(r *policy.Request) { r.GVK.Group = "reports.kyverno.io" }, false},
	} {
		r := &policy.Request{Review: policy.Review{Operation: base.Operation, GVK: base.GVK}}
		c.change(r)
		if got := reported(r); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestScans(t *testing.T) {
	kinds := []schema.GroupKind{{Group: "apps", Kind: "Deployment"}, podKind}
	text := NewScans(kinds).String()
	if text != "Deployment.apps,Pod" {
		t.Errorf("%q", text)
	}
	got := ParseScans(text)
	if !got.Has(kinds[0]) || !got.Has(podKind) || got.Has(schema.GroupKind{Kind: "Deployment"}) || ParseScans("").Has(schema.GroupKind{}) {
		t.Errorf("%v", got)
	}
	var many []schema.GroupKind
	for i := range 1000 {
		many = append(many, schema.GroupKind{Group: strings.Repeat("g", 60), Kind: strings.Repeat("k", i)})
	}
	if long := NewScans(many).String(); len(long) > maxScanned || len(long) < maxScanned-2000 || strings.HasSuffix(long, ",") {
		t.Errorf("%d bytes", len(long))
	}
	if ParseScans("Pod,"+strings.Repeat("x", maxScanned)).Has(podKind) == false {
		t.Error("of a text that is too long the beginning counts")
	}
}

// The knowledge about the reports controller is as old as the last renewal of its Lease.
func TestView(t *testing.T) {
	start := time.Unix(1000, 0)
	var v View
	look := func(after time.Duration, scans, there bool) {
		t.Helper()
		s, is := v.At(start.Add(after))
		if s.Has(podKind) != scans || is != there {
			t.Errorf("after %s: scans %v, there %v; want %v, %v", after, s.Has(podKind), is, scans, there)
		}
	}
	look(0, false, false) // no Lease
	v.Saw(start, start.Add(-time.Hour), "Pod")
	look(0, false, false) // a Lease without a holder
	v.Saw(start, start.Add(-time.Hour+time.Second), "Pod")
	look(0, true, true) // a Lease that is renewed, by a clock that is wrong
	look(fresh, true, true)
	look(fresh+time.Second, false, true)
	look(away, false, true)
	look(away+time.Second, false, false)
	v.Saw(start.Add(time.Hour), start.Add(-time.Hour+time.Second), "Pod") // seen again, but not renewed
	look(time.Hour, false, false)
	v.Saw(start.Add(time.Hour), start, "Deployment.apps")
	look(time.Hour, false, true)
	v.Gone()
	look(time.Hour, false, false)
}

// Put costs almost nothing for results that are not sent.
func BenchmarkPutNothing(b *testing.B) {
	p, r := sent(func(*policy.Program, *policy.Rule) {})
	view := &View{}
	view.Saw(time.Now(), time.Now(), "Deployment.apps,Pod")
	w := New(Options{View: view, Now: time.Now})
	req := podRequest("u", policy.Create)
	results := make([]policy.Result, 20)
	for i := range results {
		results[i] = policy.Result{Program: p, Rule: r, Yield: policy.Yield{Status: policy.StatusPass}}
	}
	b.ReportAllocs()
	for b.Loop() {
		w.Put(req, results)
	}
	if n := testing.AllocsPerRun(100, func() { w.Put(req, results) }); n != 0 {
		b.Errorf("%v allocations", n)
	}
}

func podRequest(uid string, o policy.Operation) *policy.Request {
	return &policy.Request{Review: policy.Review{
		UID: "request", Operation: o, GVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
		GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespace: "ns", Name: "p",
		Object: value.Of(map[string]any{"metadata": map[string]any{"name": "p", "namespace": "ns", "uid": uid}}),
	}}
}
