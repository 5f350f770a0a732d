package enqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/value"
)

var resource = schema.GroupResource{Group: "kyverno.io", Resource: "updaterequests"}

// store simulates the API server: names are unique, generations increase, and it can be unavailable.
type store struct {
	mu      sync.Mutex
	objects map[string]*kyvernov2.UpdateRequest
	down    error
	created int
	// before is called before an update, to simulate a faster writer.
	before func()
}

func (s *store) Create(_ context.Context, u *kyvernov2.UpdateRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return s.down
	}
	if s.objects[u.Name] != nil {
		return apierrors.NewAlreadyExists(resource, u.Name)
	}
	if s.objects == nil {
		s.objects = map[string]*kyvernov2.UpdateRequest{}
	}
	s.created++
	s.objects[u.Name] = u.DeepCopy()
	s.objects[u.Name].Generation, s.objects[u.Name].ResourceVersion = 1, "1"
	return nil
}

func (s *store) Get(_ context.Context, _, name string) (*kyvernov2.UpdateRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, s.down
	}
	if s.objects[name] == nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return s.objects[name].DeepCopy(), nil
}

func (s *store) Update(_ context.Context, u *kyvernov2.UpdateRequest) error {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	there := s.objects[u.Name]
	switch {
	case s.down != nil:
		return s.down
	case there == nil:
		return apierrors.NewNotFound(resource, u.Name)
	case there.ResourceVersion != u.ResourceVersion:
		return apierrors.NewConflict(resource, u.Name, errors.New("changed"))
	}
	next := u.DeepCopy()
	next.Generation, next.ResourceVersion = there.Generation+1, fmt.Sprint(there.Generation+1)
	s.objects[u.Name] = next
	return nil
}

func (s *store) Count(context.Context, string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects), s.down
}

func (s *store) delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, name)
}

func (s *store) only(t *testing.T) *kyvernov2.UpdateRequest {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.objects) != 1 {
		t.Fatalf("%d UpdateRequests, want 1: %v", len(s.objects), s.objects)
	}
	for _, u := range s.objects {
		return u
	}
	return nil
}

type recorded struct {
	mu     sync.Mutex
	events []event.Event
}

func (e *recorded) Record(x event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, x)
}

// counted holds counts; read it only when no write is in flight.
type counted struct {
	mu                        sync.Mutex
	failed, waiting, existing int
}

func (c *counted) UpdateRequests(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.existing = n
}

func (c *counted) UpdateRequestFailed(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed++
	c.waiting = n
}

func (c *counted) UpdateRequestsWaiting(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = n
}

func writer(s *store, threshold int) (*Writer, *recorded, *counted) {
	events, counts := &recorded{}, &counted{}
	var steps atomic.Int64
	return New(Options{
		API: s, Namespace: "kyverno", Threshold: func() int { return threshold }, Events: events, Observer: counts,
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Unix(0, 0).Add(time.Duration(steps.Add(1)) * 2 * countFor) },
	}), events, counts
}

// program is a policy with two generate rules and a mutate-existing rule.
var program = func() *policy.Program {
	p := &policy.Program{APIVersion: "kyverno.io/v1", Kind: "ClusterPolicy", Name: "quota"}
	for _, name := range []string{"a", "b"} {
		p.Rules = append(p.Rules, &policy.Rule{Name: name, Stage: policy.StageGenerate})
	}
	p.Rules = append(p.Rules, &policy.Rule{Name: "m", Stage: policy.StageMutateExisting, Reads: policy.Reads{Needs: policy.Needs{Roles: true}}})
	return p
}()

func generate(rules ...int) []policy.Work {
	var out []policy.Work
	for _, i := range rules {
		out = append(out, policy.Work{Program: program, Rule: program.Rules[i], Kind: policy.WorkGenerate, Synchronize: true})
	}
	return out
}

func request(op policy.Operation, uid string) *policy.Request {
	object := func(label string) *value.Doc {
		return value.FromJSON(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","uid":"` + uid + `","labels":{"n":"` + label + `"},"managedFields":[{"manager":"x"}]}}`)
	}
	r := &policy.Request{Review: policy.Review{
		UID: "review-" + string(op), Operation: op, GVK: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"},
		RequestGVK: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, GVR: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"},
		Name: "shop", User: &policy.User{Username: "jane", Groups: []string{"dev"}, Extra: map[string][]string{"k": {"v"}}},
		Options: map[string]any{"kind": "CreateOptions"},
		ResolveRoles: func(context.Context) (policy.Roles, error) {
			return policy.Roles{Roles: []string{"ns:r"}, ClusterRoles: []string{"admin"}}, nil
		},
	}}
	if op != policy.Delete {
		r.Object = object("new")
	}
	if op != policy.Create {
		r.OldObject = object("old")
	}
	return r
}

// An UpdateRequest contains everything that the worker needs to evaluate the rules again.
func TestContent(t *testing.T) {
	s := &store{}
	w, _, counts := writer(s, 1000)
	if warnings := w.Write(t.Context(), request(policy.Create, "u1"), generate(0, 1)); len(warnings) > 0 {
		t.Fatal(warnings)
	}
	u := s.only(t)
	got, err := json.Marshal(map[string]any{"namespace": u.Namespace, "labels": u.Labels, "spec": u.Spec})
	if err != nil {
		t.Fatal(err)
	}
	const ref = `{"apiVersion":"v1","kind":"Namespace","name":"shop","uid":"u1"}`
	want := `{"labels":{"ephor.dev/work-key":"523df9b4226fea7f2967","generate.kyverno.io/policy-name":"quota"},"namespace":"kyverno","spec":{"requestType":"generate","policy":"quota","rule":"","deleteDownstream":false,"resource":` + ref + `,` +
		`"ruleContext":[{"rule":"a","deleteDownstream":false,"synchronize":true,"trigger":` + ref + `},{"rule":"b","deleteDownstream":false,"synchronize":true,"trigger":` + ref + `}],` +
		`"context":{"userInfo":{"roles":null,"clusterRoles":null,"userInfo":{"username":"jane","groups":["dev"],"extra":{"k":["v"]}}},` +
		`"admissionRequestInfo":{"admissionRequest":{"uid":"review-CREATE","kind":{"group":"","version":"v1","kind":"Namespace"},"resource":{"group":"","version":"v1","resource":"namespaces"},` +
		`"name":"shop","operation":"CREATE","userInfo":{"username":"jane","groups":["dev"],"extra":{"k":["v"]}},` +
		`"object":{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"n":"new"},"name":"shop","uid":"u1"}},"oldObject":null,"dryRun":false,"options":{"kind":"CreateOptions"}},"operation":"CREATE"}}}}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !strings.HasPrefix(u.Name, "ur-") || len(u.Name) != 23 || counts.existing != 0 {
		t.Errorf("name %q, %+v", u.Name, counts)
	}
}

// The UpdateRequest for a mutate rule has its labels and its type, and the roles, since the rule depends on them.
func TestMutateExisting(t *testing.T) {
	s := &store{}
	w, _, _ := writer(s, 1000)
	w.Write(t.Context(), request(policy.Update, "u1"), []policy.Work{{Program: program, Rule: program.Rules[2], Kind: policy.WorkMutateExisting}})
	u := s.only(t)
	if u.Spec.RequestType != kyvernov2.Mutate || u.Spec.Rule != "m" || u.Spec.Context.UserInfo.ClusterRoles[0] != "admin" || u.Spec.Context.UserInfo.Roles[0] != "ns:r" {
		t.Errorf("%+v", u.Spec)
	}
	for k, v := range map[string]string{"policy-name": "quota", "trigger-name": "shop", "trigger-namespace": "", "trigger-kind": "Namespace", "trigger-apiversion": "v1"} {
		if got, ok := u.Labels["mutate.updaterequest.kyverno.io/"+k]; !ok || got != v {
			t.Errorf("label %s: %q", k, got)
		}
	}
	if len(u.Spec.Context.AdmissionRequestInfo.AdmissionRequest.OldObject.Raw) == 0 {
		t.Error("the old object is not kept")
	}
}

// An UpdateRequest for a Secret has nothing of its content. It names the rules whose conditions read the old content and held.
func TestSecret(t *testing.T) {
	secret := func(op policy.Operation) *policy.Request {
		r := request(op, "u1")
		r.GVK.Kind, r.RequestGVK.Kind, r.GVR.Resource = "Secret", "Secret", "secrets"
		r.Object, r.OldObject = value.FromJSON(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"shop","uid":"u1"},"data":{"a":"bmV3"}}`),
			value.FromJSON(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"shop","uid":"u1"},"data":{"a":"b2xk"}}`)
		return r
	}
	p := &policy.Program{Kind: "ClusterPolicy", Name: "quota", UID: "p1", Generation: 7}
	p.Rules = []*policy.Rule{
		{Name: "reads", Stage: policy.StageMutateExisting, WorkPlan: policy.WorkPlan{OldContent: policy.OldContent{Conditions: true}}}, {Name: "other", Stage: policy.StageMutateExisting},
	}
	s := &store{}
	w, _, _ := writer(s, 1000)
	w.Write(t.Context(), secret(policy.Update), []policy.Work{{Program: p, Rule: p.Rules[0], Kind: policy.WorkMutateExisting}})
	w.Write(t.Context(), secret(policy.Update), []policy.Work{{Program: p, Rule: p.Rules[1], Kind: policy.WorkMutateExisting}})
	u := s.only(t)
	text, err := json.Marshal(u)
	if err != nil || strings.Contains(string(text), "bmV3") || strings.Contains(string(text), "b2xk") {
		t.Errorf("%v: the UpdateRequest has content of the Secret: %s", err, text)
	}
	changed := *p
	changed.Generation++
	for _, c := range []struct {
		p    *policy.Program
		rule string
		want bool
	}{{p, "reads", true}, {p, "other", false}, {&changed, "reads", false}} {
		if got := updaterequest.Held(u, c.p, c.rule); got != c.want {
			t.Errorf("generation %d, %s: %v", c.p.Generation, c.rule, got)
		}
	}
	if len(u.Spec.RuleContext) != 2 {
		t.Errorf("%+v", u.Spec.RuleContext)
	}
	w.Write(t.Context(), request(policy.Update, "u2"), []policy.Work{{Program: p, Rule: p.Rules[0], Kind: policy.WorkMutateExisting}})
	for _, u := range s.objects {
		if u.Spec.Resource.Kind == "Namespace" && updaterequest.Held(u, p, "reads") {
			t.Error("the old content of other objects is stored")
		}
	}
}

// There is one UpdateRequest for each policy and trigger: repeated work raises its generation and adds its rules.
func TestRepeat(t *testing.T) {
	s := &store{}
	w, _, _ := writer(s, 1000)
	w.Write(t.Context(), request(policy.Update, "u1"), generate(0))
	w.Write(t.Context(), request(policy.Update, "u1"), generate(1))
	w.Write(t.Context(), request(policy.Update, "u1"), []policy.Work{{Program: program, Rule: program.Rules[0], Kind: policy.WorkDeleteDownstream, Synchronize: true}})
	u := s.only(t)
	if u.Generation != 3 || s.created != 1 || len(u.Spec.RuleContext) != 2 || u.Status.State != "" {
		t.Fatalf("generation %d, %+v", u.Generation, u.Spec.RuleContext)
	}
	for _, r := range u.Spec.RuleContext {
		if r.DeleteDownstream != (r.Rule == "a") {
			t.Errorf("%+v: what was asked last counts", r)
		}
	}
	// Another replica changes it between reading and writing, then executes it.
	s.before = func() { u := s.objects[u.Name]; u.ResourceVersion = "other" }
	w.Write(t.Context(), request(policy.Update, "u1"), generate(1))
	s.before = func() { s.delete(u.Name) }
	if warnings := w.Write(t.Context(), request(policy.Update, "u1"), generate(1)); len(warnings) > 0 || s.created != 2 {
		t.Errorf("%v, created %d", warnings, s.created)
	}
	// Another trigger, another policy, another type.
	before := s.created
	w.Write(t.Context(), request(policy.Update, "u2"), generate(1))
	w.Write(t.Context(), request(policy.Update, "u1"), []policy.Work{{Program: program, Rule: program.Rules[2], Kind: policy.WorkMutateExisting}})
	other := &policy.Program{Name: "quota", Namespace: "shop", Rules: program.Rules}
	w.Write(t.Context(), request(policy.Update, "u1"), []policy.Work{{Program: other, Rule: program.Rules[1], Kind: policy.WorkGenerate}})
	if s.created != before+3 {
		t.Errorf("%d were created, want %d", s.created-before, 3)
	}
}

// A rule that reads the requester or the old object is executed for the request that it matched, even if another request wants other work, or
// the same, before it is done.
func TestRequestsThatRulesReadDoNotMix(t *testing.T) {
	reading := &policy.Program{APIVersion: "kyverno.io/v1", Kind: "ClusterPolicy", Name: "reads"}
	for _, needs := range []policy.Needs{{}, {User: true}, {Roles: true}, {OldObject: true}} {
		reading.Rules = append(reading.Rules, &policy.Rule{Name: fmt.Sprintf("%+v", needs), Stage: policy.StageGenerate, Reads: policy.Reads{Needs: needs}})
	}
	for i, first := range reading.Rules {
		for _, second := range []*policy.Rule{first, reading.Rules[0]} {
			for _, waits := range []bool{false, true} {
				s := &store{}
				w, _, _ := writer(s, 1000)
				if waits {
					s.down = errors.New("etcd has no leader")
				}
				for _, user := range []string{"jane", "bob", "eve", "eve"} {
					req := request(policy.Update, "u1")
					req.UID, req.User = "review of "+user, &policy.User{Username: user}
					rule := second
					if user == "jane" {
						rule = first
					}
					w.Write(t.Context(), req, []policy.Work{{Program: reading, Rule: rule, Kind: policy.WorkGenerate}})
				}
				s.down = nil
				if err := w.flush(t.Context()); err != nil {
					t.Error(err)
				}
				var got []string
				for _, u := range s.objects {
					for _, r := range u.Spec.RuleContext {
						got = append(got, u.Spec.Context.UserInfo.UserInfo.Username+" "+r.Rule)
					}
				}
				slices.Sort(got)
				want := []string{"eve " + second.Name}
				if i > 0 {
					want = append(want, "jane "+first.Name)
					if second == first {
						want = append(want, "bob "+first.Name)
					}
				}
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("%s, then %s, waits %t: %q, want %q", first.Name, second.Name, waits, got, want)
				}
			}
		}
	}
}

// Rules that matched a creation are executed for the creation, even if an update requests others meanwhile.
func TestOperationsDoNotMix(t *testing.T) {
	s := &store{}
	w, _, _ := writer(s, 1000)
	w.Write(t.Context(), request(policy.Create, "u1"), generate(0))
	w.Write(t.Context(), request(policy.Update, "u1"), generate(1))
	w.Write(t.Context(), request(policy.Update, "u1"), generate(1))
	if len(s.objects) != 2 {
		t.Fatalf("%d UpdateRequests", len(s.objects))
	}
	for _, u := range s.objects {
		rule, op := u.Spec.RuleContext[0].Rule, u.Spec.Context.AdmissionRequestInfo.Operation
		if len(u.Spec.RuleContext) != 1 || (rule == "a") != (op == "CREATE") {
			t.Errorf("%s %+v", op, u.Spec.RuleContext)
		}
	}
	// If all rules are requested again, nothing is lost.
	s.objects = nil
	w.Write(t.Context(), request(policy.Create, "u1"), generate(0))
	w.Write(t.Context(), request(policy.Delete, "u1"), []policy.Work{{Program: program, Rule: program.Rules[0], Kind: policy.WorkDeleteDownstream}})
	if u := s.only(t); u.Spec.Context.AdmissionRequestInfo.Operation != "DELETE" || !u.Spec.RuleContext[0].DeleteDownstream {
		t.Errorf("%+v", u.Spec)
	}
}

// A failed write does not change the answer. It causes a warning, an event and a count, and is retried.
func TestFailureWaits(t *testing.T) {
	s := &store{down: errors.New("etcd has no leader")}
	w, events, counts := writer(s, 1000)
	warnings := w.Write(t.Context(), request(policy.Create, "u1"), generate(0))
	want := "policy quota: its work is delayed: write UpdateRequest "
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0], want) || !strings.HasSuffix(warnings[0], "etcd has no leader") {
		t.Errorf("%q", warnings)
	}
	if w.Waiting() != 1 || counts.failed != 1 || counts.waiting != 1 || len(events.events) != 1 {
		t.Fatalf("waiting %d, %+v, %+v", w.Waiting(), counts, events.events)
	}
	if e := events.events[0]; e.Regarding.Name != "quota" || e.Related.Name != "shop" || e.Reason != event.PolicyError || !strings.Contains(e.Note, "its work is delayed") {
		t.Errorf("%+v", e)
	}
	if w.flush(t.Context()) == nil {
		t.Error("written though the API server is down")
	}
	s.down = nil
	// A request for the same policy and trigger takes over the waiting work.
	w.Write(t.Context(), request(policy.Create, "u1"), generate(1))
	if u := s.only(t); len(u.Spec.RuleContext) != 2 || w.Waiting() != 0 {
		t.Errorf("%+v, %d wait", u.Spec.RuleContext, w.Waiting())
	}
	s.down = errors.New("again")
	w.Write(t.Context(), request(policy.Create, "u2"), generate(1))
	s.down = nil
	if w.flush(t.Context()) != nil || len(s.objects) != 2 || counts.waiting != 0 {
		t.Errorf("%d objects, %+v", len(s.objects), counts)
	}
}

// An UpdateRequest that the API server will always reject does not wait for ever.
func TestRefused(t *testing.T) {
	s := &store{down: apierrors.NewRequestEntityTooLargeError("limit is 3145728")}
	w, events, _ := writer(s, 1000)
	if warnings := w.Write(t.Context(), request(policy.Create, "u1"), generate(0)); len(warnings) != 1 || !strings.Contains(warnings[0], "its work is lost: ") || w.Waiting() != 0 || len(events.events) != 1 {
		t.Errorf("%q, %d wait, %+v", warnings, w.Waiting(), events.events)
	}
	s.down = errors.New("down")
	w.Write(t.Context(), request(policy.Create, "u1"), generate(0))
	s.down = apierrors.NewBadRequest("no")
	if w.flush(t.Context()); w.Waiting() != 0 || len(events.events) != 3 {
		t.Errorf("%d wait, %+v", w.Waiting(), events.events)
	}
}

// Work that waits is not lost because a later request, whose UpdateRequest includes it, is refused.
func TestRefusedBesideEarlierWork(t *testing.T) {
	s := &store{down: errors.New("down")}
	w, _, counts := writer(s, 1000)
	w.Write(t.Context(), request(policy.Create, "u1"), generate(0))
	s.down = apierrors.NewRequestEntityTooLargeError("limit is 3145728")
	w.Write(t.Context(), request(policy.Create, "u1"), generate(0, 1))
	s.down = nil
	if w.Waiting() != 1 || w.flush(t.Context()) != nil || counts.waiting != 0 {
		t.Fatalf("%d wait, %+v", w.Waiting(), counts)
	}
	if u := s.only(t); len(u.Spec.RuleContext) != 1 || u.Spec.RuleContext[0].Rule != "a" {
		t.Errorf("%+v", u.Spec.RuleContext)
	}
}

// A denial by a ValidatingAdmissionPolicy of the cluster, which has the reason Invalid, can be lifted. An UpdateRequest whose fields are invalid stays so.
func TestDeniedByAValidatingAdmissionPolicy(t *testing.T) {
	denied := apierrors.NewForbidden(resource, "u", errors.New("ValidatingAdmissionPolicy 'owners' with binding 'owners' denied request: it has no owner"))
	denied.ErrStatus.Reason, denied.ErrStatus.Code = metav1.StatusReasonInvalid, http.StatusUnprocessableEntity
	denied.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "it has no owner"}}
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "kyverno.io", Kind: "UpdateRequest"}, "u", field.ErrorList{field.Required(field.NewPath("spec", "policy"), "")})
	for _, c := range []struct {
		err  error
		kept int
	}{{denied, 1}, {invalid, 0}} {
		s := &store{down: c.err}
		w, _, _ := writer(s, 1000)
		w.Write(t.Context(), request(policy.Create, "u1"), generate(0))
		if _ = w.flush(t.Context()); w.Waiting() != c.kept {
			t.Errorf("%v: %d wait, want %d", c.err, w.Waiting(), c.kept)
		}
		s.down = nil
		if err := w.flush(t.Context()); err != nil || len(s.objects) != c.kept {
			t.Errorf("%v: %d are written, want %d: %v", c.err, len(s.objects), c.kept, err)
		}
	}
}

// The threshold limits new work: it has to wait, but repeated work does not count as new, and no work is lost.
func TestThreshold(t *testing.T) {
	s := &store{}
	w, events, counts := writer(s, 2)
	for i := range 4 {
		warnings := w.Write(t.Context(), request(policy.Create, fmt.Sprint("u", i)), generate(0))
		if full := i >= 2; full != (len(warnings) == 1) || full && !strings.Contains(warnings[0], "its work is delayed: as many UpdateRequests as updateRequestThreshold allows (2) wait") {
			t.Errorf("%d: %q", i, warnings)
		}
	}
	if w.Waiting() != 2 || counts.failed != 2 || counts.existing != 2 || len(events.events) != 2 || len(s.objects) != 2 {
		t.Fatalf("%d wait, %+v, %d events, %d objects", w.Waiting(), counts, len(events.events), len(s.objects))
	}
	if warnings := w.Write(t.Context(), request(policy.Create, "u0"), generate(1)); len(warnings) > 0 {
		t.Errorf("asked again: %q", warnings)
	}
	if w.flush(t.Context()) == nil || len(s.objects) != 2 {
		t.Error("more than the threshold")
	}
	for name := range s.objects {
		s.delete(name)
	}
	if w.flush(t.Context()) != nil || len(s.objects) != 2 || w.Waiting() != 0 {
		t.Errorf("%d objects, %d wait", len(s.objects), w.Waiting())
	}
	none, _, _ := writer(s, 0)
	if warnings := none.Write(t.Context(), request(policy.Create, "u9"), generate(0)); len(warnings) > 0 {
		t.Errorf("no threshold: %q", warnings)
	}
}

// Waiting work is bounded, and work beyond the bound is reported.
func TestNoRoom(t *testing.T) {
	s := &store{down: errors.New("down")}
	w, _, _ := writer(s, 0)
	w.bytes = maxWaitingBytes
	if warnings := w.Write(t.Context(), request(policy.Create, "u1"), generate(0)); len(warnings) != 1 || !strings.Contains(warnings[0], "lost, since too many UpdateRequests are waiting") {
		t.Errorf("%q", warnings)
	}
}

// When the process stops, waiting work is written in the remaining time.
func TestRunWritesAtTheEnd(t *testing.T) {
	s := &store{down: errors.New("down")}
	w, _, _ := writer(s, 0)
	w.Write(t.Context(), request(policy.Create, "u1"), generate(0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.down = nil
	w.End(ctx)
	s.only(t)
}

// Work is not stored if the roles cannot be resolved.
func TestNoRoles(t *testing.T) {
	s := &store{}
	w, events, _ := writer(s, 0)
	r := request(policy.Create, "u1")
	r.ResolveRoles = func(context.Context) (policy.Roles, error) {
		return policy.Roles{}, errors.New("bindings are not cached")
	}
	warnings := w.Write(t.Context(), r, []policy.Work{{Program: program, Rule: program.Rules[2], Kind: policy.WorkMutateExisting}})
	if len(warnings) != 1 || !strings.Contains(warnings[0], "bindings are not cached") || len(events.events) != 1 || len(s.objects) != 0 {
		t.Errorf("%q %+v", warnings, events.events)
	}
}

func TestSecretsAreNotCopied(t *testing.T) {
	const secret = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","annotations":{"a":"b","kubectl.kubernetes.io/last-applied-configuration":"hush"}},"data":{"k":"aHVzaA=="},"stringData":{"l":"hush"},"type":"Opaque"}`
	r := request(policy.Update, "u1")
	r.Object, r.OldObject = value.FromJSON(secret), value.FromJSON(secret)
	s := &store{}
	w, _, _ := writer(s, 0)
	w.Write(t.Context(), r, generate(0))
	b, err := json.Marshal(s.only(t))
	if err != nil || strings.Contains(string(b), "hush") || strings.Contains(string(b), "aHVzaA") || !strings.Contains(string(b), `"type":"Opaque"`) {
		t.Errorf("%s, %v", b, err)
	}
	if v, _ := r.Object.Map(); v["data"] == nil {
		t.Error("the request was changed")
	}
}

func TestLargeObjects(t *testing.T) {
	big := func(n int) *value.Doc {
		return value.Of(map[string]any{"kind": "ConfigMap", "data": map[string]any{"k": strings.Repeat("x", n)}})
	}
	for _, c := range []struct {
		object, old       int
		hasObject, hasOld bool
	}{{100, 100, true, true}, {maxContent / 2, maxContent/2 + 1, false, true}, {100, maxContent, true, false}, {maxContent, maxContent, false, false}} {
		r := request(policy.Update, "u1")
		r.Object, r.OldObject = big(c.object), big(c.old)
		a, err := admissionOf(r)
		if err != nil || (len(a.Object.Raw) > 0) != c.hasObject || (len(a.OldObject.Raw) > 0) != c.hasOld {
			t.Errorf("%+v: %d, %d, %v", c, len(a.Object.Raw), len(a.OldObject.Raw), err)
		}
	}
}

func TestLabels(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "plain": "plain", "apps/v1": "apps-v1", "system:node": "system-node", strings.Repeat("x", 62) + ".y": strings.Repeat("x", 62), "-a-": "a",
	} {
		if got := updaterequest.LabelValue(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Work of one policy with different causes: the trigger, a generated object, and a copied object. Each stored request is for a
// different object.
func TestCauses(t *testing.T) {
	s := &store{}
	w, _, _ := writer(s, 0)
	r := request(policy.Delete, "u1")
	work := generate(0, 0, 0)
	work[1].Trigger = &policy.Source{APIVersion: "v1", Kind: "Namespace", UID: "u1"}
	work[2].OfSource = true
	w.Write(t.Context(), r, work)
	var got []string
	for _, u := range s.objects {
		_, source := u.Labels[updaterequest.LabelSource]
		got = append(got, fmt.Sprintf("%s/%s %v %+v", u.Spec.Resource.Name, u.Spec.Resource.UID, source, u.Spec.RuleContext[0].Trigger))
	}
	slices.Sort(got)
	want := []string{
		"/u1 false {APIVersion:v1 Kind:Namespace Namespace: Name: UID:u1}",
		"shop/u1 false {APIVersion:v1 Kind:Namespace Namespace: Name:shop UID:u1}",
		"shop/u1 true {APIVersion: Kind: Namespace: Name: UID:}",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Each generated object of a trigger has an UpdateRequest of its own with the request about it, which proves its labels; another request about
// the same object replaces only that one.
func TestOneForEachGeneratedObject(t *testing.T) {
	s := &store{}
	w, _, _ := writer(s, 0)
	about := func(name, uid string, op policy.Operation) {
		r := request(op, uid)
		r.UID, r.Name = "review-"+name+"-"+string(op), name
		r.GVK.Kind, r.RequestGVK.Kind, r.Namespace = "ConfigMap", "ConfigMap", "shop"
		object := value.FromJSON(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `","namespace":"shop","uid":"` + uid + `"}}`)
		r.OldObject = object
		if op != policy.Delete {
			r.Object = object
		}
		work := generate(0)
		work[0].Trigger = &policy.Source{APIVersion: "v1", Kind: "Namespace", Name: "shop", UID: "trigger"}
		w.Write(t.Context(), r, work)
	}
	about("a", "u1", policy.Update)
	about("b", "u2", policy.Delete)
	about("a", "u1", policy.Delete)
	var got []string
	for _, u := range s.objects {
		got = append(got, fmt.Sprintf("%s for %s", u.Spec.Context.AdmissionRequestInfo.AdmissionRequest.UID, u.Spec.Resource.UID))
	}
	slices.Sort(got)
	if want := []string{"review-a-DELETE for trigger", "review-b-DELETE for trigger"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Work that waits keeps the operation that it matched, as stored work does.
func TestOperationsDoNotMixWhileWaiting(t *testing.T) {
	for _, later := range []policy.Operation{policy.Update, policy.Delete} {
		s := &store{down: errors.New("etcd has no leader")}
		w, _, _ := writer(s, 1000)
		w.Write(t.Context(), request(policy.Create, "u1"), generate(0))
		w.Write(t.Context(), request(later, "u1"), generate(1))
		w.Write(t.Context(), request(later, "u1"), generate(1))
		s.down = nil
		w.flush(t.Context())
		if len(s.objects) != 2 {
			t.Errorf("%s: %d UpdateRequests, want 2", later, len(s.objects))
		}
		for _, u := range s.objects {
			for _, r := range u.Spec.RuleContext {
				if op := u.Spec.Context.AdmissionRequestInfo.Operation; (r.Rule == "a") != (op == "CREATE") {
					t.Errorf("%s: rule %s is evaluated with the request %s", later, r.Rule, op)
				}
			}
		}
	}
}

// UpdateRequests that a webhook of the cluster denies do not keep the others from being written, however many they are.
func TestDeniedUpdateRequestsDoNotBlock(t *testing.T) {
	s := &store{down: errors.New("etcd has no leader")}
	w, _, _ := writer(s, 1000)
	const all, bad = 50, 40
	for i := range all {
		w.Write(t.Context(), request(policy.Create, fmt.Sprint("u", i)), generate(0))
	}
	s.down = nil
	w.API = &denying{store: s, names: w.names()[:bad]}
	for range 5 {
		if w.flush(t.Context()) == nil {
			t.Error("all are said to be written")
		}
	}
	if len(s.objects) != all-bad || w.Waiting() != bad {
		t.Errorf("%d of %d good UpdateRequests are written, %d wait", len(s.objects), all-bad, w.Waiting())
	}
}

// denying denies the objects with these names.
type denying struct {
	*store
	names []string
}

func (d *denying) Create(ctx context.Context, u *kyvernov2.UpdateRequest) error {
	if slices.Contains(d.names, u.Name) {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "updaterequests"}, u.Name, errors.New("denied by an admission webhook"))
	}
	return d.store.Create(ctx, u)
}

// Work whose place is taken while it is written again is reported as lost.
func TestLostWhileRetried(t *testing.T) {
	s := &store{down: errors.New("etcd has no leader")}
	w, events, _ := writer(s, 1000)
	w.Write(t.Context(), request(policy.Create, "u1"), generate(0))
	before := len(events.events)
	w.API = &filling{store: s, fill: func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.bytes = maxWaitingBytes
	}}
	if w.flush(t.Context()) == nil || w.Waiting() != 0 {
		t.Errorf("%d UpdateRequests wait", w.Waiting())
	}
	if got := events.events[before:]; len(got) != 1 || !strings.Contains(got[0].Note, "its work is lost") {
		t.Errorf("events: %v", got)
	}
}

// filling calls fill during the creation of an object.
type filling struct {
	*store
	fill func()
}

func (f *filling) Create(ctx context.Context, u *kyvernov2.UpdateRequest) error {
	f.fill()
	return f.store.Create(ctx, u)
}
