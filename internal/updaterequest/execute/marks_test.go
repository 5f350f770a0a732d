package execute

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/seal"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/origin"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// markedPolicy is a policy with a rule for any requester and one for alice.
const markedPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  background: false
  rules:
  - name: anybody
    match: {any: [{resources: {kinds: [ConfigMap], selector: {matchLabels: {t: "yes"}}}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: "{{request.object.metadata.name}}-made", namespace: "{{request.object.metadata.namespace}}", data: {data: {k: v}}}
  - name: alice
    match: {any: [{resources: {kinds: [ConfigMap], selector: {matchLabels: {t: "yes"}}}, subjects: [{kind: User, name: alice}]}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: "{{request.object.metadata.name}}-alice", namespace: "{{request.object.metadata.namespace}}", data: {data: {k: v}}}
  - name: sent
    match: {any: [{resources: {kinds: [Pod/exec, Pod/eviction]}}]}
    generate: {apiVersion: v1, kind: ConfigMap, name: "{{request.name}}-sent", namespace: "{{request.namespace}}", data: {data: {k: v}}}
  - name: deleted
    match: {any: [{resources: {kinds: [ConfigMap], operations: [DELETE]}}]}
    generate: {apiVersion: v1, kind: ConfigMap, name: "{{request.name}}-deleted", namespace: "{{request.namespace}}", data: {data: {k: v}}}
`

type nowhere struct{}

func (nowhere) For(world.Reach) world.World { return world.World{} }

// recordedEvents stores events.
type recordedEvents struct {
	mu  sync.Mutex
	all []string
}

func (e *recordedEvents) Record(x event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, x.Note)
}

func (e *recordedEvents) has(part string) bool {
	return slices.ContainsFunc(e.all, func(s string) bool { return strings.Contains(s, part) })
}

func keyringOf(t *testing.T, bytesOf ...byte) *seal.Keyring {
	t.Helper()
	var keys []seal.Key
	for _, b := range bytesOf {
		k, err := seal.NewKey(bytes.Repeat([]byte{b}, seal.KeySize))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	r, err := seal.NewKeyring(keys[0], keys[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// newMarked returns a Worker with the policy, in a cluster of these objects.
func newMarked(t *testing.T, objects ...client.Object) (*Worker, *recordedEvents) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(markedPolicy))
	if err != nil {
		t.Fatal(err)
	}
	v, err := value.DecodeJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	program := compile.Product.Families()[0].Compile(family.Source{Object: v.(map[string]any)})
	if program.Diags.HasErrors() {
		t.Fatal(program.Diags)
	}
	events, ring := &recordedEvents{}, keyringOf(t, 1)
	snapshot := catalog.NewStatic([]*policy.Program{program})
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"ConfigMap", "Pod"} {
		mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: kind}, meta.RESTScopeNamespace)
	}
	log := slog.New(slog.DiscardHandler)
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithRESTMapper(mapper).WithObjects(objects...).Build()
	return NewWorker(WorkerOptions{
		Client: c, Root: nowhere{},
		Made: &origin.Objects{
			Client: c, Record: origin.New(origin.Options{Log: log}), Keys: func(context.Context, bool) (*seal.Keyring, error) { return ring, nil }, Events: events, Log: log,
			Find: func(policy.Target) ([]schema.GroupVersionKind, error) {
				return nil, errors.New("no kind is in a variable")
			},
		},
		Snapshot: func() *catalog.Snapshot { return snapshot }, Events: events, Log: log, Now: time.Now,
		Conf:   func() policy.Conf { return policy.Conf{} },
		Labels: func(context.Context, string) (map[string]string, error) { return nil, nil },
	}), events
}

// renew gives the parts of a Worker its changed options.
func renew(w *Worker) {
	made := *w.Made
	made.Client = w.Client
	w.Made = &made
	*w = *NewWorker(w.WorkerOptions)
}

func configMapOf(namespace, name, uid string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid), Labels: labels},
	}
}

// claiming returns the labels of an object that a rule generated for a trigger.
func claiming(rule, namespace, uid string) map[string]string {
	return map[string]string{
		"app.kubernetes.io/managed-by": "kyverno", origin.LabelPrefix + "policy-name": "p", origin.LabelPrefix + "policy-namespace": "", origin.LabelPrefix + "rule-name": rule,
		origin.LabelPrefix + "trigger-group": "", origin.LabelPrefix + "trigger-version": "v1", origin.LabelPrefix + "trigger-kind": "ConfigMap",
		origin.LabelPrefix + "trigger-namespace": namespace, origin.LabelPrefix + "trigger-uid": uid,
	}
}

// markedAs adds the mark of the rule to an object.
func markedAs(t *testing.T, o *corev1.ConfigMap, rule string, trigger kyvernov2.ResourceSpec, isAsked bool) *corev1.ConfigMap {
	o.Annotations = map[string]string{mark.Annotation: mark.Make(keyringOf(t, 1), mark.Claim{
		Policy: "p", Rule: rule, Asked: isAsked,
		Trigger: mark.Object{APIVersion: trigger.APIVersion, Kind: trigger.Kind, Namespace: trigger.Namespace, Name: trigger.Name, UID: string(trigger.UID)},
	}, mark.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: o.Namespace, Name: o.Name})}
	return o
}

func triggerSpec(namespace, name, uid string) kyvernov2.ResourceSpec {
	return kyvernov2.ResourceSpec{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: name, UID: types.UID(uid)}
}

// workOf returns an UpdateRequest for one rule and trigger, with a user's request for an object.
func workOf(t *testing.T, rule string, trigger kyvernov2.ResourceSpec, operation admissionv1.Operation, user string, about client.Object) *kyvernov2.UpdateRequest {
	t.Helper()
	u := &kyvernov2.UpdateRequest{Spec: kyvernov2.UpdateRequestSpec{
		RequestType: kyvernov2.Generate, Policy: "p", Resource: trigger, RuleContext: []kyvernov2.RuleContext{{Rule: rule, Trigger: trigger, Synchronize: true}},
	}}
	if about == nil {
		return u
	}
	gvk := about.GetObjectKind().GroupVersionKind()
	r := &kyvernov2.AdmissionRequest{
		Kind: metav1.GroupVersionKind(gvk), Resource: metav1.GroupVersionResource{Version: "v1", Resource: strings.ToLower(gvk.Kind) + "s"},
		Name: about.GetName(), Namespace: about.GetNamespace(), Operation: operation,
	}
	r.UserInfo.Username = user
	text := []byte(value.JSON(map[string]any{"apiVersion": "v1", "kind": gvk.Kind, "metadata": map[string]any{
		"name": about.GetName(), "namespace": about.GetNamespace(), "uid": string(about.GetUID()), "labels": anyMap(about.GetLabels()), "annotations": anyMap(about.GetAnnotations()),
	}}))
	if operation == admissionv1.Create || operation == admissionv1.Update {
		r.Object.Raw = text
	}
	if operation != admissionv1.Create {
		r.OldObject.Raw = text
	}
	u.Spec.Context.AdmissionRequestInfo = kyvernov2.AdmissionRequestInfo{AdmissionRequest: r, Operation: operation}
	return u
}

func anyMap(m map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// carry executes an UpdateRequest once.
func carry(t *testing.T, w *Worker, u *kyvernov2.UpdateRequest) error {
	t.Helper()
	todo := updaterequest.Rules(&u.Spec)
	x := &task{u: u, RuleContext: todo[0], reads: w.read.reads([]kyvernov2.ResourceSpec{todo[0].Trigger}), waited: 2 * patience}
	return w.one(t.Context(), x)
}

// present returns the ConfigMaps of the cluster.
func present(t *testing.T, w *Worker) (names []string) {
	t.Helper()
	list := &corev1.ConfigMapList{}
	if err := w.Client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		names = append(names, o.Namespace+"/"+o.Name)
	}
	slices.Sort(names)
	return names
}

var triggers = map[string]string{"t": "yes"}

// T1: nothing is done for a trigger that does not exist, and nothing is deleted for one that exists.
func TestT1TriggersAreRead(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "pod", UID: "pod"}}
	sent := func(u *kyvernov2.UpdateRequest, subresource string) *kyvernov2.UpdateRequest {
		u.Spec.Context.AdmissionRequestInfo.AdmissionRequest.SubResource = subresource
		return u
	}
	podSpec := kyvernov2.ResourceSpec{APIVersion: "v1", Kind: "Pod", Namespace: "n", Name: "pod"}
	there := configMapOf("n", "there", "u1", triggers)
	for name, c := range map[string]struct {
		work *kyvernov2.UpdateRequest
		made string // the generated object; empty for none
		with client.Object
	}{
		"a creation":              {work: workOf(t, "anybody", triggerSpec("n", "there", "u1"), "CREATE", "u", there), with: there, made: "n/there-made"},
		"an invented creation":    {work: workOf(t, "anybody", triggerSpec("n", "none", "u1"), "CREATE", "u", configMapOf("n", "none", "u1", triggers)), with: there},
		"an invented UID":         {work: workOf(t, "anybody", triggerSpec("n", "there", "u2"), "CREATE", "u", configMapOf("n", "there", "u2", triggers)), with: there},
		"an invented update":      {work: workOf(t, "anybody", triggerSpec("n", "none", "u1"), "UPDATE", "u", configMapOf("n", "none", "u1", triggers)), with: there},
		"a deletion":              {work: workOf(t, "deleted", triggerSpec("n", "none", "u1"), "DELETE", "u", configMapOf("n", "none", "u1", triggers)), with: there, made: "n/none-deleted"},
		"an invented deletion":    {work: workOf(t, "deleted", triggerSpec("n", "there", "u1"), "DELETE", "u", there), with: there},
		"a command":               {work: sent(workOf(t, "sent", podSpec, "CONNECT", "u", pod), "exec"), with: pod, made: "n/pod-sent"},
		"an invented command":     {work: sent(workOf(t, "sent", podSpec, "CONNECT", "u", pod), "exec"), with: there},
		"an eviction, and no Pod": {work: sent(workOf(t, "sent", podSpec, "CREATE", "u", pod), "eviction"), with: there, made: "n/pod-sent"},
		"no name and no UID":      {work: workOf(t, "anybody", triggerSpec("n", "", ""), "", "", nil), with: there},
	} {
		w, _ := newMarked(t, c.with.DeepCopyObject().(client.Object))
		err := carry(t, w, c.work)
		want := []string{}
		if c.with == there {
			want = append(want, "n/there")
		}
		if c.made != "" {
			want = append(want, c.made)
			slices.Sort(want)
		}
		if got := present(t, w); !slices.Equal(got, want) {
			t.Errorf("%s: there are %q, want %q (%v)", name, got, want, err)
		}
	}
}

// T2: a generated object is deleted with its trigger if its mark proves it, or if the rule generates exactly this object for the
// trigger. An object that only has labels stays and is reported.
func TestT2OnlyWhatIsProvedIsDeleted(t *testing.T) {
	trigger := triggerSpec("n", "gone", "u1")
	old := configMapOf("n", "gone", "u1", triggers)
	deletion := func() *kyvernov2.UpdateRequest {
		u := workOf(t, "anybody", trigger, "DELETE", "u", old)
		u.Spec.RuleContext[0].DeleteDownstream = true
		return u
	}
	for name, c := range map[string]struct {
		object   *corev1.ConfigMap
		with     client.Object
		stays    bool
		reported bool
	}{
		"marked":                         {object: markedAs(t, configMapOf("n", "any", "d", claiming("anybody", "n", "u1")), "anybody", trigger, false)},
		"what the rule makes":            {object: configMapOf("n", "gone-made", "d", claiming("anybody", "n", "u1"))},
		"labels":                         {object: configMapOf("victim", "any", "d", claiming("anybody", "n", "u1")), stays: true, reported: true},
		"the mark of another object":     {object: markedAs(t, configMapOf("n", "any", "d", claiming("anybody", "n", "u1")), "anybody", trigger, false), stays: true, reported: true},
		"the mark of another rule":       {object: markedAs(t, configMapOf("n", "any", "d", claiming("anybody", "n", "u1")), "alice", trigger, false), stays: true, reported: true},
		"the mark for another trigger":   {object: markedAs(t, configMapOf("n", "any", "d", claiming("anybody", "n", "u1")), "anybody", triggerSpec("n", "other", "u2"), false), stays: true},
		"the same UID under other names": {object: markedAs(t, configMapOf("n", "any", "d", claiming("anybody", "n", "u1")), "anybody", triggerSpec("n", "other", "u1"), false), stays: true},
	} {
		if name == "the mark of another object" {
			c.object.Name = "moved"
		}
		w, events := newMarked(t, c.object)
		if err := carry(t, w, deletion()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := len(present(t, w)) == 1; got != c.stays {
			t.Errorf("%s: it stays: %v", name, got)
		}
		if got := events.has("is not changed"); got != c.reported {
			t.Errorf("%s: reported: %v, %q", name, got, events.all)
		}
	}
}

// T2: no object is deleted for a trigger that exists or cannot be read, whatever claims its deletion.
func TestT2ATriggerIsGoneByItsUID(t *testing.T) {
	there := configMapOf("n", "there", "u1", triggers)
	made := markedAs(t, configMapOf("n", "there-made", "d", claiming("anybody", "n", "u1")), "anybody", triggerSpec("n", "there", "u1"), false)
	for name, named := range map[string]kyvernov2.ResourceSpec{
		"another name": triggerSpec("n", "none", "u1"), "another namespace": triggerSpec("mallory", "", "u1"), "its own": triggerSpec("n", "there", "u1"),
	} {
		for _, forged := range []bool{false, true} {
			w, _ := newMarked(t, there.DeepCopy(), made.DeepCopy())
			work := workOf(t, "anybody", named, "", "", nil)
			if forged {
				work = workOf(t, "anybody", named, "DELETE", "mallory", configMapOf("mallory", "forged", "f", claiming("anybody", named.Namespace, "u1")))
			}
			err := carry(t, w, work)
			if got := present(t, w); !slices.Equal(got, []string{"n/there", "n/there-made"}) {
				t.Errorf("%s (forged: %v): %q is left, %v", name, forged, got, err)
			}
		}
	}
	w, _ := newMarked(t, there.DeepCopy(), made.DeepCopy())
	w.Client = unreadable{w.Client}
	renew(w)
	x := &task{u: &kyvernov2.UpdateRequest{}, RuleContext: kyvernov2.RuleContext{Rule: "anybody", Trigger: triggerSpec("n", "there", "u1")}}
	x.program, x.rule = updaterequest.FindRule(w.Snapshot(), updaterequest.PolicyID(kyvernov2.Generate, "p"), "anybody")
	if err := w.removeFor(t.Context(), x, ceased{deleted: true}); err == nil || len(present(t, w)) != 2 {
		t.Errorf("the trigger cannot be read: %v, and %q is left", err, present(t, w))
	}
}

// T2: an API server that does not serve the kind of a trigger at the moment, or a version of it, does not make its triggers gone. Nor does it
// make generated objects gone for the record.
func TestT2KindsThatAreNotServed(t *testing.T) {
	there := configMapOf("n", "there", "u1", triggers)
	made := markedAs(t, configMapOf("n", "there-made", "d", claiming("anybody", "n", "u1")), "anybody", triggerSpec("n", "there", "u1"), false)
	w, _ := newMarked(t)
	u := workOf(t, "anybody", triggerSpec("n", "there", "u1"), "", "", nil)
	withRequest(t, w, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if o.GetObjectKind().GroupVersionKind().Kind == "ConfigMap" {
			return apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Resource: "configmaps"}, k.Name, "404 page not found", 0, true)
		}
		return c.Get(ctx, k, o, opts...)
	}}, u, there, made)
	w.Made.Record.Add(origin.Entry{
		Claim:  mark.Claim{Policy: "p", Rule: "anybody", Trigger: mark.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "there", UID: "u1"}},
		Object: mark.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "other", UID: "o"},
	})
	if err := carry(t, w, u); err == nil {
		t.Error("the trigger cannot be read, and there is no error")
	}
	if got := present(t, w); !slices.Equal(got, []string{"n/there", "n/there-made"}) {
		t.Errorf("%q is left", got)
	}
	program, rule := updaterequest.FindRule(w.Snapshot(), updaterequest.PolicyID(kyvernov2.Generate, "p"), "anybody")
	if _, err := w.Made.Of(t.Context(), program, rule, origin.Which{}); err != nil {
		t.Error(err)
	}
	if _, known := w.Made.Record.Object("o"); !known {
		t.Error("the object cannot be read, and the record has no entry for it")
	}
}

// unreadable is a cluster in which objects can be listed but not read.
type unreadable struct{ client.Client }

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return fmt.Errorf("the API server is away")
}

// T3: a rule that depends on the requester is executed for a request of the requester, and to renew an object that was generated for one.
// It is never executed because of labels or a scan.
func TestT3Requester(t *testing.T) {
	there := configMapOf("n", "there", "u1", triggers)
	trigger := triggerSpec("n", "there", "u1")
	labels := claiming("alice", "n", "u1")
	made := func() *corev1.ConfigMap { return configMapOf("n", "there-alice", "d", labels) }
	for name, c := range map[string]struct {
		work *kyvernov2.UpdateRequest
		with *corev1.ConfigMap
		made bool
	}{
		"alice":                          {work: workOf(t, "alice", trigger, "CREATE", "alice", there), made: true},
		"mallory":                        {work: workOf(t, "alice", trigger, "CREATE", "mallory", there)},
		"a scan":                         {work: workOf(t, "alice", trigger, "", "", nil)},
		"forged labels":                  {work: workOf(t, "alice", trigger, "DELETE", "mallory", configMapOf("n", "forged", "f", labels))},
		"labels of what the rule makes":  {work: workOf(t, "alice", trigger, "DELETE", "mallory", made())},
		"what was made for alice":        {work: workOf(t, "alice", trigger, "DELETE", "mallory", markedAs(t, made(), "alice", trigger, true)), made: true},
		"what was made without asking":   {work: workOf(t, "alice", trigger, "DELETE", "mallory", markedAs(t, made(), "alice", trigger, false))},
		"a mark in another place":        {work: workOf(t, "alice", trigger, "DELETE", "mallory", moved(markedAs(t, made(), "alice", trigger, true)))},
		"another that was made for her":  {work: workOf(t, "alice", trigger, "", "", nil), with: markedAs(t, configMapOf("n", "x", "d", labels), "alice", trigger, true), made: true},
		"another with forged labels":     {work: workOf(t, "alice", trigger, "", "", nil), with: configMapOf("n", "x", "d", labels)},
		"another for another trigger":    {work: workOf(t, "alice", trigger, "", "", nil), with: markedAs(t, configMapOf("n", "x", "d", labels), "alice", triggerSpec("n", "o", "u2"), true)},
		"a kind that labels only say":    {work: workOf(t, "alice", kyvernov2.ResourceSpec{APIVersion: "v1", Kind: "Secret", Namespace: "n", Name: "there", UID: "u1"}, "CREATE", "alice", there)},
		"the rule for anybody, a label":  {work: workOf(t, "anybody", trigger, "DELETE", "mallory", configMapOf("n", "forged", "f", claiming("anybody", "n", "u1")))},
		"the rule for anybody, its work": {work: workOf(t, "anybody", trigger, "DELETE", "mallory", configMapOf("n", "there-made", "f", claiming("anybody", "n", "u1"))), made: true},
	} {
		objects := []client.Object{there.DeepCopy()}
		if c.with != nil {
			objects = append(objects, c.with)
		}
		w, _ := newMarked(t, objects...)
		err := carry(t, w, c.work)
		got := slices.ContainsFunc(present(t, w), func(n string) bool { return n == "n/there-alice" || n == "n/there-made" })
		if got != c.made {
			t.Errorf("%s: made: %v, %v", name, got, err)
		}
		if !c.made {
			continue
		}
		list := &corev1.ConfigMapList{}
		if err := w.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if o := &list.Items[i]; o.Name == "there-alice" || o.Name == "there-made" {
				u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
				u.SetNamespace(o.Namespace)
				u.SetName(o.Name)
				u.SetAnnotations(o.Annotations)
				if claim, ok, err := w.Made.Claim(t.Context(), u); !ok || err != nil || updaterequest.SpecIn(claim.Trigger) != trigger || claim.Asked != (o.Name == "there-alice") {
					t.Errorf("%s: the mark of what was made: %+v, %v, %v", name, claim, ok, err)
				}
			}
		}
	}
}

func moved(o *corev1.ConfigMap) *corev1.ConfigMap {
	o.Name = "moved"
	return o
}

// A change of a generated object is reverted after the API server has stored it. Before that there is nothing to revert.
func TestUndoAfterTheWrite(t *testing.T) {
	trigger := triggerSpec("n", "there", "u1")
	made := markedAs(t, configMapOf("n", "there-made", "d", claiming("anybody", "n", "u1")), "anybody", trigger, false)
	made.Data = map[string]string{"k": "v"}
	w, _ := newMarked(t, configMapOf("n", "there", "u1", triggers), made)
	key := client.ObjectKeyFromObject(made)
	live := &corev1.ConfigMap{}
	if err := w.Client.Get(t.Context(), key, live); err != nil {
		t.Fatal(err)
	}
	about := func(operation admissionv1.Operation) *task {
		u := workOf(t, "anybody", trigger, operation, "u", made)
		r := u.Spec.Context.AdmissionRequestInfo.AdmissionRequest
		for text, k := range map[*[]byte]string{&r.OldObject.Raw: "v", &r.Object.Raw: "mine"} {
			if len(*text) == 0 {
				continue
			}
			o := decode(runtime.RawExtension{Raw: *text})
			o["metadata"].(map[string]any)["resourceVersion"] = live.ResourceVersion
			o["data"] = map[string]any{"k": k}
			*text = []byte(value.JSON(o))
		}
		return &task{u: u, RuleContext: updaterequest.Rules(&u.Spec)[0], reads: w.read.reads([]kyvernov2.ResourceSpec{trigger})}
	}
	update, deletion := about("UPDATE"), about("DELETE")
	for name, x := range map[string]*task{"update": update, "deletion": deletion} {
		if err := w.one(t.Context(), x); !errors.As(err, &notYetError{}) {
			t.Errorf("%s that is not stored: %v, want a notYetError", name, err)
		}
	}
	live.Data["k"] = "mine"
	if err := w.Client.Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	if err := w.one(t.Context(), update); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Get(t.Context(), key, live); err != nil || live.Data["k"] != "v" {
		t.Errorf("after the stored update k is %q (%v), want %q", live.Data["k"], err, "v")
	}
	if err := w.Client.Delete(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	if err := w.one(t.Context(), deletion); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Get(t.Context(), key, live); err != nil {
		t.Errorf("after the stored deletion: %v, want the object made again", err)
	}
}
