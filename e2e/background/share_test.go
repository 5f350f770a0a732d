package background

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// twice generates, applies, copies and changes an object for each trigger.
const twice = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: twice}
spec:
  rules:
  - name: data
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [twice], names: [t]}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, namespace: twice, name: data, data: {data: {v: "{{request.object.data.v}}"}}}
  - name: copy
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [twice], names: [t]}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, namespace: twice, name: copy, clone: {namespace: twice, name: source}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: twice-applied}
spec:
  useServerSideApply: true
  rules:
  - name: applied
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [twice], names: [t]}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, namespace: twice, name: applied, data: {data: {v: "{{request.object.data.v}}"}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: twice-changed}
spec:
  rules:
  - name: changed
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [twice], names: [t]}}]}
    mutate:
      targets: [{apiVersion: v1, kind: ConfigMap, namespace: twice, name: target}]
      patchStrategicMerge: {data: {v: "{{request.object.data.v}}"}}
`

// Work that a replica repeats, because it did not know that it was done, has no visible effect: no object is written again or restored, and
// no event is created.
func TestWorkDoneTwice(t *testing.T) {
	namespaces(t, "twice")
	create(t, configMap("twice", "source", nil, map[string]string{"v": "s"}))
	create(t, configMap("twice", "target", nil, nil))
	apply(t, twice)
	for _, step := range []struct {
		name string
		do   func()
		want map[string]string // expected values of v
	}{
		{"the trigger is created", func() { create(t, configMap("twice", "t", nil, map[string]string{"v": "1"})) },
			map[string]string{"data": "1", "applied": "1", "copy": "s", "target": "1"}},
		{"the trigger is changed", func() { change(t, "twice", "t", func(o *corev1.ConfigMap) { o.Data["v"] = "2" }) },
			map[string]string{"data": "2", "applied": "2", "copy": "s", "target": "2"}},
		{"the source is changed", func() { change(t, "twice", "source", func(o *corev1.ConfigMap) { o.Data["v"] = "s2" }) },
			map[string]string{"data": "2", "applied": "2", "copy": "s2", "target": "2"}},
		{"the trigger is deleted", func() { remove(t, "twice", "t") },
			map[string]string{"data": gone, "applied": gone, "copy": gone, "target": "2"}},
	} {
		t.Run(step.name, func(t *testing.T) {
			step.do() // no replica executes the work yet
			var work []kyvernov2.UpdateRequest
			suite.Until(t, "the work is written", func() error {
				if work = requests(t); len(work) == 0 {
					return fmt.Errorf("there is no UpdateRequest")
				}
				return nil
			})
			start(t)
			drained(t)
			for name, v := range step.want {
				has(t, "twice", name, "v", v)
			}
			before := versions(t)
			for i := range work {
				u := &work[i]
				u.ObjectMeta = metav1.ObjectMeta{Name: u.Name, Namespace: u.Namespace, Labels: u.Labels}
				u.APIVersion, u.Kind = kyvernov2.GroupVersion.String(), "UpdateRequest"
				text, err := json.Marshal(u)
				if err != nil {
					t.Fatal(err)
				}
				cluster.Must(t, string(text), "create", "-f", "-")
			}
			drained(t)
			if after := versions(t); after != before {
				t.Errorf("after the work was done twice there is\n%s\nand before\n%s", after, before)
			}
		})
	}
}

// versions returns the objects of the namespace with their resource versions, read twice.
func versions(t *testing.T) string {
	t.Helper()
	return cluster.Must(t, "", "get", "configmaps", "-n", "twice", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.resourceVersion}{"\n"}{end}`)
}

// If another client takes or deletes the Lease of a replica, the replica stops working at once, takes the Lease again, and works again only
// when the ring is settled.
func TestStolenLease(t *testing.T) {
	r := start(t)
	namespaces(t, "stolen")
	apply(t, strings.NewReplacer("twice", "stolen").Replace(twice))
	create(t, configMap("stolen", "source", nil, map[string]string{"v": "s"}))
	create(t, configMap("stolen", "target", nil, nil))
	create(t, configMap("stolen", "t", nil, map[string]string{"v": "0"}))
	has(t, "stolen", "data", "v", "0")
	leases := cluster.Client.CoordinationV1().Leases(suite.Namespace)
	lease := "background-controller-" + r.Name
	for v, steal := range map[string]func() error{
		"1": func() error {
			return unlessConflict(func() error {
				l, err := leases.Get(t.Context(), lease, metav1.GetOptions{})
				if err != nil {
					return err
				}
				thief := "thief"
				l.Spec.HolderIdentity = &thief
				_, err = leases.Update(t.Context(), l, metav1.UpdateOptions{})
				return err
			})
		},
		"2": func() error { return leases.Delete(t.Context(), lease, metav1.DeleteOptions{}) },
	} {
		lost := suite.Logged(r, "has lost its share of the work")
		stolen := time.Now() // the replica may notice it before steal returns
		if err := steal(); err != nil {
			t.Fatal(err)
		}
		noticed := suite.Until(t, "it says that it has lost its share", func() error {
			if suite.Logged(r, "has lost its share of the work") == lost {
				return fmt.Errorf("it has not")
			}
			return nil
		})
		change(t, "stolen", "t", func(o *corev1.ConfigMap) { o.Data["v"] = v })
		has(t, "stolen", "data", "v", v)
		took := time.Since(stolen)
		if took < 14*time.Second {
			t.Errorf("it worked again after %s already", took)
		}
		var l *coordinationv1.Lease
		l, err := leases.Get(t.Context(), lease, metav1.GetOptions{})
		if err != nil || !strings.HasPrefix(*l.Spec.HolderIdentity, r.Name+"_") || l.Labels["ephor.dev/ring"] != "background-controller" {
			t.Errorf("%+v, %v", l, err)
		}
		t.Logf("it noticed after %s, and worked again after %s", noticed.Round(100*time.Millisecond), took.Round(100*time.Millisecond))
	}
	suite.Stop(t, r)
	if _, err := leases.Get(t.Context(), lease, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Lease of a replica that has ended: %v", err)
	}
}

// unlessConflict retries after a conflict.
func unlessConflict(f func() error) (err error) {
	for range 20 {
		if err = f(); !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// two generates an object for each trigger, and copies one.
const two = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: two}
spec:
  rules:
  - name: data
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [two], selector: {matchLabels: {t: t}}}}]}
    generate:
      generateExisting: true
      synchronize: true
      apiVersion: v1
      kind: ConfigMap
      namespace: two
      name: "{{request.object.metadata.name}}-data"
      data: {data: {v: "%s"}}
  - name: copy
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [two], selector: {matchLabels: {t: t}}}}]}
    generate:
      generateExisting: true
      synchronize: true
      apiVersion: v1
      kind: ConfigMap
      namespace: two
      name: "{{request.object.metadata.name}}-copy"
      clone: {namespace: two, name: source}
`

// Two replicas share the work for existing objects, for requests, and for a changed policy and source. One UpdateRequest may contain
// triggers of both.
func TestTwoReplicas(t *testing.T) {
	const n = 30
	first := start(t)
	second := cluster.Start(t, devcluster.Background)
	for _, r := range []*devcluster.Replica{first, second} {
		suite.Says(t, r, "the replicas that share the work", first.Name, second.Name)
	}
	namespaces(t, "two")
	create(t, configMap("two", "source", nil, map[string]string{"v": "s1"}))
	triggers := func(name string) {
		for i := range n {
			create(t, configMap("two", fmt.Sprintf("%s-%d", name, i), map[string]string{"t": "t"}, nil))
		}
	}
	made := func(data, copied string, names ...string) {
		t.Helper()
		for _, name := range names {
			for i := range n {
				has(t, "two", fmt.Sprintf("%s-%d-data", name, i), "v", data)
				has(t, "two", fmt.Sprintf("%s-%d-copy", name, i), "v", copied)
			}
		}
		drained(t)
	}
	triggers("existing")
	apply(t, fmt.Sprintf(two, "1"))
	made("1", "s1", "existing")
	triggers("asked")
	made("1", "s1", "existing", "asked")
	cluster.Must(t, fmt.Sprintf(two, "2"), "apply", "-f", "-")
	made("2", "s1", "existing", "asked")
	change(t, "two", "source", func(o *corev1.ConfigMap) { o.Data["v"] = "s2" })
	made("2", "s2", "existing", "asked")
	for _, r := range []*devcluster.Replica{first, second} {
		if evaluated(t, r, "two") == 0 {
			t.Errorf("%s did nothing", r.Name)
		}
	}
}

// evaluated returns the number of rules of a policy that a replica reports as executed.
func evaluated(t *testing.T, r *devcluster.Replica, policy string) (n int) {
	t.Helper()
	text := suite.Metrics(t, r.MetricsAddr)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "kyverno_policy_results_total{") && strings.Contains(line, fmt.Sprintf("policy_name=%q", policy)) {
			n++
		}
	}
	return n
}

// An object that another replica creates for a rule just after the deletion of the rule and its objects is deleted too.
func TestMadeForARuleThatIsGone(t *testing.T) {
	start(t)
	namespaces(t, "late")
	policy := strings.NewReplacer("twice", "late").Replace(strings.SplitN(twice, "  - name: copy", 2)[0])
	apply(t, policy)
	create(t, configMap("late", "t", nil, map[string]string{"v": "1"}))
	has(t, "late", "data", "v", "1")
	made, err := cluster.Client.CoreV1().ConfigMaps("late").Get(t.Context(), "data", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cluster.Must(t, policy, "delete", "-f", "-")
	has(t, "late", "data", "v", gone)
	settled(t, "late")
	create(t, configMap("late", "late", made.Labels, map[string]string{"v": "1"})) // only its labels show that it was generated
	again := configMap("late", "data", made.Labels, map[string]string{"v": "1"})
	again.Annotations = made.Annotations
	create(t, again)
	has(t, "late", "data", "v", gone)
	awaitEvent(t, "PolicyError", "v1/ConfigMap/late/late is not changed: its labels claim that the rule generated it, but there is no proof")
	has(t, "late", "late", "v", "1")
	has(t, "late", "t", "v", "1")
}
