package origin

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
)

func entry(policyName, rule, trigger, uid string) Entry {
	return Entry{
		Claim:  mark.Claim{Kind: "Kind", Policy: policyName, Rule: rule, Trigger: mark.Object{APIVersion: "v1", Kind: "Namespace", Name: trigger, UID: trigger}, Source: "s"},
		Object: mark.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: trigger, Name: "made-" + uid, UID: uid},
		From:   mark.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "source", UID: "s"},
	}
}

func open(t *testing.T, c client.Client) *Record {
	t.Helper()
	l := New(Options{Client: c, Namespace: "ephor", Log: slog.New(slog.DiscardHandler)})
	if err := l.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

func store(t *testing.T, l *Record) {
	t.Helper()
	if err := l.Store(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func uids(entries []Entry) (out string) {
	for _, e := range entries {
		out += e.Object.UID + " "
	}
	return out
}

// An entry is found by its rule, its trigger and its source, by this replica, by another one, and after a restart.
func TestRecord(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	a, b := open(t, c), open(t, c)
	rule := Rule{policy.ID{Kind: "Kind", Name: "p"}, "r"}
	for i, trigger := range []string{"x", "x", "y"} {
		a.Add(entry("p", "r", trigger, fmt.Sprint(i)))
	}
	a.Add(entry("q", "r", "x", "3"))
	a.Add(Entry{Claim: mark.Claim{Policy: "p", Rule: "r"}}) // an object that the API server has not stored yet
	store(t, a)
	b.Add(entry("p", "r", "z", "4")) // b has not read the entry that a stored
	store(t, b)
	follow := func(l *Record) {
		for i := range Shards {
			if err := l.Stored(t.Context(), Name(i), "another"); err != nil {
				t.Fatal(err)
			}
		}
	}
	follow(a)
	for name, l := range map[string]*Record{"first": a, "second": b, "after a restart": open(t, c)} {
		follow(l)
		for what, x := range map[string]struct{ got, want string }{
			"rule":    {uids(l.OfRule(rule)), "0 1 2 4 "},
			"trigger": {uids(l.OfTrigger(rule, "x")), "0 1 "},
			"source":  {uids(l.OfSource("s")), "0 1 3 2 4 "},
			"other":   {uids(l.OfRule(Rule{policy.ID{Kind: "Other", Name: "p"}, "r"})), ""},
			"kinds":   {fmt.Sprint(l.Kinds(rule)), fmt.Sprint([]schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}})},
			"rules":   {fmt.Sprint(len(l.Rules())), "2"},
		} {
			if x.got != x.want {
				t.Errorf("%s, %s: %q, want %q", name, what, x.got, x.want)
			}
		}
	}
	a.Forget(rule)
	store(t, a)
	follow(b)
	if got := b.Len(); got != 1 {
		t.Errorf("%d entries are left of those that another replica forgot", got)
	}
}

// A damaged or deleted ConfigMap is written again; none of its content is used.
func TestDamagedRecord(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	uid := "u"
	cm := &corev1.ConfigMap{BinaryData: map[string][]byte{contentKey: []byte("no gzip")}}
	cm.Namespace, cm.Name = "ephor", Name(shardOf(uid))
	if err := c.Create(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	l := open(t, c)
	l.Add(entry("p", "r", "x", uid))
	store(t, l)
	if got := open(t, c).Len(); got != 1 {
		t.Errorf("%d entries are stored", got)
	}
	if err := c.Delete(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	if err := l.Stored(t.Context(), cm.Name, ""); err != nil {
		t.Fatal(err)
	}
	if got := l.Len(); got != 0 {
		t.Errorf("%d entries are left of a ConfigMap that an administrator deleted", got)
	}
}

// A read that began before this replica stored the ConfigMap, and ends after it, does not remove what was stored. Nor does the end of a write
// undo a later state that was read meanwhile.
func TestReadDuringAWrite(t *testing.T) {
	for _, existed := range []bool{false, true} {
		var l *Record
		reads := false
		c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build(), interceptor.Funcs{
			Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				err := w.Get(ctx, key, o, options...)
				if reads {
					reads = false
					l.Add(entry("p", "r", "x", "u"))
					store(t, l)
				}
				return err
			},
		})
		if existed {
			cm := &corev1.ConfigMap{}
			cm.Namespace, cm.Name = "ephor", Name(shardOf("u"))
			if err := c.Create(t.Context(), cm); err != nil {
				t.Fatal(err)
			}
		}
		l = open(t, c)
		reads = true
		if err := l.Stored(t.Context(), Name(shardOf("u")), "another"); err != nil {
			t.Fatal(err)
		}
		if _, ok := l.Object("u"); !ok {
			t.Errorf("the ConfigMap existed: %v: a stored entry is forgotten", existed)
		}
	}
}

func TestWriteDuringAnotherWrite(t *testing.T) {
	base := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	other := open(t, base)
	var l *Record
	written := false
	after := func(ctx context.Context, err error) error {
		if err == nil && !written { // before this replica knows that it has written
			written = true
			other.Add(entry("p", "r", "x", "v"))
			store(t, other)
			if err := l.Stored(ctx, Name(shardOf("v")), "another"); err != nil {
				return err
			}
		}
		return err
	}
	l = open(t, interceptor.NewClient(base, interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return after(ctx, w.Create(ctx, o, options...))
		},
	}))
	first := "u"
	for i := 0; shardOf(first) != shardOf("v"); i++ {
		first = fmt.Sprint("u", i)
	}
	l.Add(entry("p", "r", "x", first))
	store(t, l)
	for _, uid := range []string{first, "v"} {
		if _, ok := l.Object(uid); !ok {
			t.Errorf("the stored entry %s is forgotten", uid)
		}
	}
}

// The record has a maximum size, and takes new entries when there is room again.
func TestBound(t *testing.T) {
	l := New(Options{Log: slog.New(slog.DiscardHandler)})
	for i := range Max + 10 {
		l.Add(entry("p", "r", "x", fmt.Sprint(i)))
	}
	if got := l.Len(); got != Max {
		t.Errorf("%d entries, the bound is %d", got, Max)
	}
	l.Drop("0")
	l.Add(entry("p", "r", "x", "more"))
	if _, ok := l.Object("more"); !ok {
		t.Error("no entry is recorded when there is room again")
	}
}

// Max entries fit into the ConfigMaps.
func TestSizeOfTheRecord(t *testing.T) {
	stored := map[string]*Entry{}
	for i := range Max / Shards {
		uid := fmt.Sprintf("%08x-91a4-4c52-9d4f-%012x", i*2654435761%(1<<32), i*40503%(1<<20))
		e := entry("generate-defaults-for-namespaces", "network-policies", "team-"+uid[:8], uid)
		e.Trigger.UID = uid[9:] + uid[:8]
		e.Plan = base64.RawStdEncoding.EncodeToString(fmt.Appendf(nil, "%09x", i*2654435761)[:9]) // each object has defaults of the API server
		stored[uid] = &e
	}
	content, err := encode(stored)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d entries: %d bytes", len(stored), len(content))
	if len(content) > maxStored {
		t.Errorf("%d entries take %d bytes, a ConfigMap holds %d", len(stored), len(content), maxStored)
	}
	back, err := decode(content)
	if err != nil || len(back) != len(stored) {
		t.Errorf("%d entries are read again: %v", len(back), err)
	}
}

// What was generated until the end is stored at the end.
func TestRecordIsStoredAtTheEnd(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	l := open(t, c)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { l.End(ctx); close(ended) }()
	l.Add(entry("p", "r", "x", "late"))
	stop()
	<-ended
	if n := open(t, c).Len(); n != 1 {
		t.Errorf("%d entries are stored", n)
	}
}

// While rules cannot be listed, their triggers share the attempts instead of writing each for itself.
func TestEnsureRuleFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes, refuses := 0, true
		c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, more ...client.CreateOption) error {
				if writes++; refuses {
					return apierrors.NewConflict(corev1.Resource("configmaps"), o.GetName(), errors.New("another replica was faster"))
				}
				return c.Create(ctx, o, more...)
			},
		}).Build()
		l := open(t, c)
		rules := []*policy.Rule{
			{Name: "r", WorkPlan: policy.WorkPlan{Generation: &policy.Generation{Synchronize: true}}}, {Name: "s", WorkPlan: policy.WorkPlan{Generation: &policy.Generation{Synchronize: true}}},
		}
		p := &policy.Program{Kind: "ClusterPolicy", Name: "p", UID: "1", Rules: rules}
		work := func(wants bool, most int) {
			t.Helper()
			writes = 0
			var busy sync.WaitGroup
			for i := range 50 {
				busy.Go(func() {
					r := rules[i%len(rules)]
					if err := l.EnsureRule(t.Context(), p, r); (err == nil) != wants {
						t.Errorf("%v", err)
					}
				})
			}
			busy.Wait()
			if writes > most {
				t.Errorf("50 triggers wrote %d times, want at most %d", writes, most)
			}
		}
		work(false, addAttempts)
		work(false, 0)
		time.Sleep(addAgain)
		work(false, addAttempts)
		refuses = false
		time.Sleep(addAgain)
		work(true, 1)
		work(true, 0)
	})
}

// Each replica lists the rules whose objects it generates, once: a leader that starts after the policy was deleted finds them.
func TestEnsureRule(t *testing.T) {
	writes, conflicts := 0, 1
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, more ...client.UpdateOption) error {
			if writes++; conflicts > 0 {
				conflicts--
				return apierrors.NewConflict(corev1.Resource("configmaps"), o.GetName(), errors.New("another replica was faster"))
			}
			return c.Update(ctx, o, more...)
		},
	}).Build()
	rule := func(name, uid string, synchronize bool) (*policy.Program, *policy.Rule) {
		r := &policy.Rule{Name: name, WorkPlan: policy.WorkPlan{Generation: &policy.Generation{Synchronize: synchronize}}}
		return &policy.Program{Kind: "ClusterPolicy", Name: "p", UID: uid, Rules: []*policy.Rule{r}}, r
	}
	ensure := func(l *Record, p *policy.Program, r *policy.Rule) {
		t.Helper()
		if err := l.EnsureRule(t.Context(), p, r); err != nil {
			t.Fatal(err)
		}
	}
	listed := func() (out []string) {
		t.Helper()
		rules, err := open(t, c).LoadRules(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rules {
			out = append(out, r.Name)
		}
		return out
	}
	a, b := open(t, c), open(t, c)
	p, r := rule("first", "1", true)
	ensure(a, p, r)
	ensure(b, p, r)
	p, r = rule("second", "1", true)
	ensure(b, p, r) // after a conflict
	ensure(b, p, r)
	ensure(a, p, r)
	p, r = rule("once", "1", false)
	ensure(a, p, r)
	if got := listed(); !slices.Equal(got, []string{"first", "second"}) || writes != 2 {
		t.Fatalf("%q after %d updates", got, writes)
	}
	// A rule that did not synchronize when the leader recorded it, and does now.
	if known, err := a.LoadRules(t.Context()); err != nil {
		t.Fatal(err)
	} else if err := a.StoreRules(t.Context(), append(known, definitionOf(p, r))); err != nil {
		t.Fatal(err)
	}
	p, r = rule("once", "1", true)
	ensure(b, p, r)
	if known, err := a.LoadRules(t.Context()); err != nil || len(known) != 3 || !known[2].Synchronize {
		t.Fatalf("%v: %+v", err, known)
	}
	// The leader has handled the deletion. The rule of a new policy of the same name is listed again.
	if _, err := a.LoadRules(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.StoreRules(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	p, r = rule("first", "2", true)
	ensure(b, p, r)
	if got := listed(); !slices.Equal(got, []string{"first"}) {
		t.Fatalf("%q", got)
	}
}
