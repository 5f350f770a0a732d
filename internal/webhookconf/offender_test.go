package webhookconf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"ephor.invalid/ephor/internal/policy"
)

// cell is a leader that writes configurations to an API server that rejects some of them.
type cell struct {
	t         *testing.T
	now       time.Time
	tries     int // dry runs
	rejects   func(w anyWebhook) bool
	fails     error // of each write
	client    client.Client
	offenders *Offenders
}

func newCell(t *testing.T, rejects func(anyWebhook) bool) *cell {
	scheme := runtime.NewScheme()
	if err := admissionv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := &cell{t: t, now: time.Unix(1_000_000, 0), rejects: rejects}
	answer := func(o client.Object, dry bool) error {
		if dry {
			c.tries++
		}
		if c.fails != nil {
			return c.fails
		}
		var errs field.ErrorList
		for i, w := range webhooksOf(o) {
			if c.rejects(w) {
				errs = append(errs, field.Invalid(field.NewPath("webhooks").Index(i).Child("rules"), w.name(), "not on my watch"),
					field.Invalid(field.NewPath("webhooks").Index(i).Child("clientConfig").Child("service").Child("path"), "/secret", "never shown"))
			}
		}
		if len(errs) > 0 {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Configuration"}, o.GetName(), errs)
		}
		return nil
	}
	base := fake.NewClientBuilder().WithScheme(scheme).Build()
	c.client = interceptor.NewClient(base, interceptor.Funcs{
		Create: func(ctx context.Context, next client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := answer(o, slices.Contains(opts, client.CreateOption(client.DryRunAll))); err != nil {
				return err
			}
			return next.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, next client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := answer(o, slices.Contains(opts, client.UpdateOption(client.DryRunAll))); err != nil {
				return err
			}
			return next.Update(ctx, o, opts...)
		},
	})
	c.offenders = &Offenders{
		Reconciler: &Reconciler{Client: c.client, Reader: c.client, Live: c.client, Log: slog.New(slog.DiscardHandler)},
		Now:        func() time.Time { return c.now },
	}
	return c
}

// round makes one round, as the admission controller does. It returns the readiness of the policies.
func (c *cell) round(programs ...*policy.Program) (ready Readiness, written, again bool, err error) {
	c.t.Helper()
	some, left := c.offenders.Split(programs)
	input := in(some...)
	want, ready, _, err := Desired(input)
	if err != nil {
		c.t.Fatal(err)
	}
	for key, err := range left {
		ready[key] = err
	}
	if _, err := c.offenders.Reconciler.Apply(c.t.Context(), want); err != nil {
		found, _, failed := c.offenders.Find(c.t.Context(), input, want)
		c.offenders.Reconciler.LeaveUndecided(want, ready)
		return ready, false, found, errors.Join(err, failed)
	}
	c.offenders.Accept(some)
	return ready, true, false, nil
}

// settle makes rounds until the configurations are written, and returns the policies that are left out.
func (c *cell) settle(programs ...*policy.Program) (out []string) {
	c.t.Helper()
	for range 20 {
		ready, written, again, err := c.round(programs...)
		if written {
			for key, err := range ready {
				if err != nil {
					out = append(out, key)
				}
			}
			slices.Sort(out)
			return out
		}
		if !again {
			c.t.Fatal(err)
		}
	}
	c.t.Fatal("the configurations are never written")
	return nil
}

func (c *cell) paths() (out []string) {
	c.t.Helper()
	list, err := List(c.t.Context(), c.offenders.Reconciler.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, o := range list {
		if IsResource(o.GetName()) {
			for _, w := range webhooksOf(o) {
				out = append(out, PathOf(w.clientConfig()))
			}
		}
	}
	return out
}

func inNamespace(namespace string) func(*policy.Program, *policy.Webhook) {
	return func(p *policy.Program, w *policy.Webhook) {
		p.Kind, p.Namespace, w.Endpoint = "NamespacedGrouped", namespace, groupedOnes
	}
}

const (
	onPods    = `{resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}`
	onSecrets = `{resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]}`
	onEvil    = `{resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [evil]}]}`
)

// evil reports whether a webhook has a rule for the resource evil.
func evil(w anyWebhook) bool {
	return slices.ContainsFunc(w.rules(), func(r admissionv1.RuleWithOperations) bool { return slices.Contains(r.Resources, "evil") })
}

// A policy whose webhook the API server rejects is left out, alone, whether it shares its webhook or not, with the API server's words.
func TestT17OffendersAreLeftOut(t *testing.T) {
	own := func(p *policy.Program, w *policy.Webhook) { w.Own = policy.OwnTimeout }
	var many []*policy.Program
	for i := range 200 {
		many = append(many, selecting(t, fmt.Sprint("p", i), onPods, inNamespace("team")))
	}
	good := selecting(t, "good", onPods)
	for _, c := range []struct {
		name     string
		programs []*policy.Program
		want     []string
		tries    int
	}{
		{"none", []*policy.Program{good}, nil, 0},
		{"a webhook of its own", []*policy.Program{good, selecting(t, "bad", onEvil, own)}, []string{"Grouped/bad"}, 1},
		{"several webhooks of their own", []*policy.Program{good, selecting(t, "bad", onEvil, own), selecting(t, "worse", onEvil, own), selecting(t, "fine", onPods, own)}, []string{"Grouped/bad", "Grouped/worse"}, 1},
		{"a share", []*policy.Program{good, selecting(t, "bad", onEvil), selecting(t, "c", onSecrets), selecting(t, "d", onSecrets)}, []string{"Grouped/bad"}, 4},
		{"a tenant's", []*policy.Program{good, selecting(t, "bad", onEvil, inNamespace("team"))}, []string{"NamespacedGrouped/team/bad"}, 1},
		{"one of many", append(slices.Clone(many), good, selecting(t, "bad", onEvil, inNamespace("team"))), []string{"NamespacedGrouped/team/bad"}, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			cell := newCell(t, evil)
			if out := cell.settle(c.programs...); !slices.Equal(out, c.want) {
				t.Errorf("left out: %v, want %v", out, c.want)
			}
			if cell.tries > c.tries {
				t.Errorf("%d dry runs; %d suffice", cell.tries, c.tries)
			}
			for _, p := range c.programs {
				names := slices.ContainsFunc(cell.paths(), func(path string) bool { return slices.Contains(strings.Split(path, "/"), p.Name) })
				if names == slices.Contains(c.want, ProgramKey(p)) {
					t.Errorf("%s: in a configuration: %v", ProgramKey(p), names)
				}
			}
			before := cell.tries
			ready, _, _, _ := cell.round(c.programs...)
			for _, key := range c.want {
				if text := ready[key].Error(); !strings.Contains(text, "not on my watch") || strings.Contains(text, "secret") {
					t.Errorf("%s: %s", key, text)
				}
			}
			if cell.tries != before {
				t.Error("the verdict is not remembered")
			}
		})
	}
}

// If only the policies together are rejected, a tenant's policy is left out, never an administrator's.
func TestT17AdministratorsComeFirst(t *testing.T) {
	both := func(w anyWebhook) bool {
		return slices.ContainsFunc(w.rules(), func(r admissionv1.RuleWithOperations) bool { return slices.Contains(r.Resources, "configmaps") }) &&
			slices.ContainsFunc(w.rules(), func(r admissionv1.RuleWithOperations) bool { return slices.Contains(r.Resources, "services") })
	}
	tenants := func(name string) *policy.Program {
		return program(name, func(p *policy.Program) { p.Kind, p.Namespace = "Policy", "team" }, "Service")
	}
	cell := newCell(t, both)
	if out := cell.settle(tenants("a"), program("z", nil, "ConfigMap"), program("y", nil, "Pod"), tenants("b")); !slices.Equal(out, []string{"Policy/team/a", "Policy/team/b"}) {
		t.Errorf("left out: %v", out)
	}
}

// Other errors, and a configuration that is rejected without any policy, leave nothing out.
func TestT17OtherErrorsLeaveNothingOut(t *testing.T) {
	cell := newCell(t, evil)
	programs := []*policy.Program{selecting(t, "good", onPods), selecting(t, "bad", onPods, inNamespace("team"))}
	for _, err := range []error{
		apierrors.NewInternalError(errors.New("etcd")), apierrors.NewTooManyRequests("", 1), apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("a webhook of others denied it")),
		apierrors.NewRequestEntityTooLargeError("x"), errors.New("connection refused"),
	} {
		cell.fails = err
		if _, written, again, got := cell.round(programs...); written || again || got == nil {
			t.Errorf("%v: written %v, again %v, %v", err, written, again, got)
		}
	}
	cell.fails = apierrors.NewInvalid(schema.GroupKind{}, "x", field.ErrorList{field.Invalid(field.NewPath("metadata", "labels"), "a b", "")})
	if _, written, again, _ := cell.round(programs...); written || again {
		t.Error("the labels of the configuration are no mistake of a policy")
	}
	cell.fails = nil
	if out := cell.settle(programs...); len(out) > 0 {
		t.Errorf("left out: %v", out)
	}
}

// A configuration that cannot be written leaves only its own policies undecided.
func TestPoliciesOfConfigurationsThatAreNotWritten(t *testing.T) {
	cell := newCell(t, evil)
	r := cell.offenders.Reconciler
	r.Client = interceptor.NewClient(cell.client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, next client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if o.GetName() == ResourceMutating {
				return apierrors.NewForbidden(schema.GroupResource{}, o.GetName(), errors.New("a webhook of others denied it"))
			}
			return next.Create(ctx, o, opts...)
		},
	})
	mutates := func(p *policy.Program) { p.Rules[0].Stage = policy.StageMutate }
	ready, written, again, err := cell.round(program("validates", nil, "Pod"), program("mutates", mutates, "Pod"), program("idle", func(p *policy.Program) { p.Settings.Admission = false }, "Pod"))
	if written || again || err == nil {
		t.Errorf("written %v, again %v, %v", written, again, err)
	}
	for name, want := range map[string]bool{"validates": true, "mutates": false, "idle": true} {
		if reason, known := ready["ClusterPolicy/"+name]; known != want || reason != nil {
			t.Errorf("%s: known %v, %v", name, known, reason)
		}
	}
}

// A tenant who stores one rejected policy after the other cannot keep others from changes: their policies are written within a few rounds,
// and dry runs are limited.
func TestT17NamespacesWithRejectedPoliciesWait(t *testing.T) {
	cell := newCell(t, evil)
	stored := selecting(t, "stored", onPods, inNamespace("team"))
	if out := cell.settle(stored); len(out) > 0 {
		t.Fatal(out)
	}
	for i := range 60 {
		bad := selecting(t, "bad", onEvil, inNamespace("team"))
		bad.Generation = int64(i)
		fresh := selecting(t, fmt.Sprint("fresh-", i), onSecrets)
		if out := cell.settle(stored, fresh, bad); !slices.Equal(out, []string{"NamespacedGrouped/team/bad"}) {
			t.Fatalf("round %d: left out: %v", i, out)
		}
		cell.now = cell.now.Add(time.Second)
	}
	if cell.tries > maxTries {
		t.Errorf("%d dry runs in a minute", cell.tries)
	}
	cell.now = cell.now.Add(patience)
	good := selecting(t, "bad", onPods, inNamespace("team"))
	good.Generation = 100
	if out := cell.settle(stored, good); len(out) > 0 {
		t.Errorf("a corrected policy is left out: %v", out)
	}
	// Many namespaces use all dry runs: namespaced policies that are not known to be accepted wait, and others are written.
	for i := range 60 {
		bad := selecting(t, "bad", onEvil, inNamespace(fmt.Sprint("team-", i)))
		fresh := selecting(t, fmt.Sprint("fresh-", i), onSecrets)
		if out := cell.settle(stored, good, fresh, bad); !slices.Equal(out, []string{"NamespacedGrouped/" + bad.Key()}) {
			t.Fatalf("namespace %d: left out: %v", i, out)
		}
	}
}
