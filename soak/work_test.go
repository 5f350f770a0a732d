package soak

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// workRole grants the background controller the rights for the policies' objects.
const workRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: soak-background, labels: {rbac.kyverno.io/aggregate-to-background-controller: "true"}}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, update, patch, delete]}
`

// workPolicy generates two objects for each trigger of a namespace, one of them a copy, and changes a third one.
const workPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: work-%[1]s}
spec:
  rules:
  - name: data
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [%[1]s], selector: {matchLabels: {work: trigger}}}}]}
    generate:
      synchronize: true
      apiVersion: v1
      kind: ConfigMap
      name: "{{request.object.metadata.name}}-data"
      namespace: %[1]s
      data: {data: {v: "{{request.object.data.v}}"}}
  - name: copy
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [%[1]s], selector: {matchLabels: {work: trigger}}}}]}
    generate:
      synchronize: true
      apiVersion: v1
      kind: ConfigMap
      name: "{{request.object.metadata.name}}-copy"
      namespace: %[1]s
      clone: {namespace: default, name: source-%[1]s}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: work-%[1]s-target}
spec:
  rules:
  - name: target
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [%[1]s], selector: {matchLabels: {work: trigger}}}}]}
    mutate:
      targets: [{apiVersion: v1, kind: ConfigMap, namespace: %[1]s, name: "{{request.object.metadata.name}}-target"}]
      patchStrategicMerge: {data: {seen: "{{request.object.data.v}}"}}
`

// workIn prepares a namespace whose ConfigMaps are triggers.
func (p *installation) workIn(ns string) {
	p.Helper()
	p.kubectl("create", "namespace", ns)
	p.source(ns, "1")
	suite.Until(p.T, "the policies are accepted", func() error { // roles take effect shortly after they were written
		_, err := p.Try(p.T, fmt.Sprintf(workPolicy, ns), "apply", "-f", "-")
		return err
	})
	p.kubectl("wait", "--for=condition=Ready", "clusterpolicies", "--all")
	suite.Until(p.T, "triggers are asked about", func() error { return p.asksFor("configmaps") })
}

func (p *installation) source(ns, v string) {
	p.Helper()
	suite.Until(p.T, "the source is written", func() error {
		_, err := p.Try(p.T, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: source-%s, namespace: default, labels: {team: a}}, data: {v: %q}}", ns, v), "apply", "-f", "-")
		return err
	})
}

func trigger(name, v string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"work": "trigger"}}, Data: map[string]string{"v": v}}
}

// contents returns the ConfigMaps of a namespace with their data.
func (p *installation) contents(ns string) (map[string]string, error) {
	list, err := p.Client.CoreV1().ConfigMaps(ns).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, c := range list.Items {
		if c.Name != "kube-root-ca.crt" {
			out[c.Name] = encode(c.Data)
		}
	}
	return out, nil
}

// idle waits until no UpdateRequest is left.
func (p *installation) idle() time.Duration {
	p.Helper()
	begin := time.Now()
	for {
		left, err := p.Try(p.T, "", "get", "updaterequests", "-n", namespace, "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.state} {.status.message}{"\n"}{end}`)
		switch {
		case err == nil && left == "":
			return time.Since(begin)
		case time.Since(begin) > 4*time.Minute: // the time for which work is retried
			p.Fatalf("work is left: %s (%v)", left[:min(len(left), 500)], err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// Of two admission controllers one is killed at random (kill -9), twenty times, while eight clients create triggers. Each admitted trigger
// has its generated objects; a trigger that does not exist has none.
func TestTriggersOutliveAdmission(t *testing.T) {
	const clients = 8
	p := install(t)
	p.apply(workRole)
	replicas := p.start(2)
	p.Start(t, devcluster.Background)
	p.workIn("triggers")
	var mu sync.Mutex
	admitted := map[string]bool{}
	refusals := map[string]int{}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for k := range clients {
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				name := fmt.Sprintf("t-%d-%d", k, n)
				_, err := p.Client.CoreV1().ConfigMaps("triggers").Create(context.Background(), trigger(name, "1"), metav1.CreateOptions{})
				mu.Lock()
				if err == nil {
					admitted[name] = true
				} else {
					refusals[strings.ReplaceAll(err.Error(), name, "")]++
				}
				mu.Unlock()
				// The rate stays below updateRequestThreshold, including work that waits half a minute for denied triggers: work beyond the
				// threshold exists only in the process.
				time.Sleep(500 * time.Millisecond)
			}
		})
	}
	kills := times(20)
	for range kills {
		time.Sleep(time.Second + rand.N(2*time.Second))
		victim := rand.IntN(len(replicas))
		replicas[victim].Kill()
		replicas[victim] = p.Start(t, devcluster.Admission)
	}
	stop.Store(true)
	wg.Wait()
	for text, n := range refusals {
		t.Logf("%d times: %s", n, text)
	}
	settled := p.idle()
	there, err := p.contents("triggers")
	if err != nil {
		t.Fatal(err)
	}
	missing, orphans := 0, 0
	for name := range admitted {
		for _, made := range []string{"-data", "-copy"} {
			if there[name+made] != `{"v":"1"}` {
				missing++
				t.Logf("%s%s is %q", name, made, there[name+made])
			}
		}
	}
	for name := range there {
		if base, _, made := strings.Cut(name, "-data"); made && there[base] == "" {
			orphans++
		}
	}
	tell(t, "admission controllers killed under load", kills)
	figure(t, fmt.Sprintf("objects missing, for %d triggers that were admitted", len(admitted)), missing, "0", missing == 0 && len(admitted) > kills)
	figure(t, "objects for triggers that were refused", orphans, "0", orphans == 0)
	tell(t, "all work was done after", settled.Round(100*time.Millisecond))
}

// Of two background controllers one is killed (kill -9) every five seconds, the API server is killed and started again in the middle, and a
// tenth of the controllers' writes is answered with 409, 429 or 500. In the end everything is as after the same load without faults.
func TestWorkOutlivesFaults(t *testing.T) {
	const every = 5 * time.Second
	p := install(t)
	p.apply(workRole)
	p.start(2)
	calm := p.Start(t, devcluster.Background)
	p.workIn("calm")
	p.workLoad("calm", lasting(30*time.Second), func() {})
	p.idle()
	want, err := p.contents("calm")
	if err != nil {
		t.Fatal(err)
	}
	if err := calm.Stop(40 * time.Second); err != nil {
		t.Fatal(err)
	}

	faults := p.beforeAPIServer("kyverno-background-controller")
	replicas := []*devcluster.Replica{p.startBehind(faults), p.startBehind(faults)}
	p.workIn("faults")
	var stop atomic.Bool
	var killing sync.WaitGroup
	kills := 0
	killing.Go(func() {
		for next := time.Now().Add(every); ; next = next.Add(every) {
			time.Sleep(time.Until(next))
			if stop.Load() {
				return
			}
			victim := rand.IntN(len(replicas))
			replicas[victim].Kill()
			kills++
			replicas[victim] = p.startBehind(faults)
		}
	})
	p.workLoad("faults", lasting(90*time.Second), func() {
		if err := p.Restart(t.Context(), devcluster.APIServer); err != nil {
			t.Error(err)
		}
	})
	stop.Store(true)
	killing.Wait()
	settled := p.idle()
	got, err := p.contents("faults")
	if err != nil {
		t.Fatal(err)
	}
	names := maps.Clone(want)
	maps.Copy(names, got)
	different := 0
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if want[name] != got[name] {
			different++
			t.Logf("%s is %q, without faults %q", name, got[name], want[name])
		}
	}
	for _, r := range replicas {
		if err := suite.Alive(r); err != nil {
			t.Error(err)
		}
	}
	figure(t, "background controllers killed under load", kills, "every 5 s", kills > 0 && kills >= int(lasting(90*time.Second)/every)*2/3)
	share := 100 * float64(faults.wrong.Load()) / float64(max(faults.writes.Load(), 1))
	figure(t, fmt.Sprintf("of %d writes answered with 409, 429 or 500", faults.writes.Load()), fmt.Sprintf("%.1f %%", share), "about 10 %", share > 5 && share < 15 || short)
	figure(t, fmt.Sprintf("of %d objects different from those without faults", len(want)), different, "0", different == 0 && len(want) > times(100))
	tell(t, "all work was done after", settled.Round(100*time.Millisecond))
}

// startBehind starts a background controller whose requests go through the proxy. It starts it again, as the kubelet does, if it ends
// because the API server is not available.
func (p *installation) startBehind(f *faulty) (r *devcluster.Replica) {
	p.Helper()
	var err error
	for range 5 {
		if r, err = p.Ephor.Start(context.Background(), devcluster.Background, "--kubeconfig="+f.kubeconfig); err == nil {
			break
		}
		p.Log(err)
	}
	if err != nil {
		p.Error("it does not start")
	}
	if r != nil {
		p.Cleanup(func() { r.Kill() })
	}
	return r
}

// workLoad continuously creates triggers, changes and deletes some of them, and modifies their generated objects. In the middle the source
// of the copies changes, and middle is called.
func (p *installation) workLoad(ns string, d time.Duration, middle func()) {
	p.Helper()
	const clients = 8
	count := times(160)
	each := d * clients / time.Duration(count)
	configMaps := p.Client.CoreV1().ConfigMaps(ns)
	ctx := context.Background()
	// Every step is retried until it succeeds, since the API server may be unavailable.
	try := func(what string, f func() error) {
		var err error
		for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(200 * time.Millisecond) {
			if err = f(); err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
				return
			}
		}
		p.Errorf("%s: %v", what, err)
	}
	var running sync.WaitGroup
	for k := range clients {
		running.Go(func() {
			for i := k; i < count; i += clients {
				next := time.Now().Add(each)
				name := fmt.Sprintf("t-%d", i)
				try("create the target of "+name, func() error {
					_, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name + "-target"}}, metav1.CreateOptions{})
					return err
				})
				try("create "+name, func() error {
					_, err := configMaps.Create(ctx, trigger(name, "1"), metav1.CreateOptions{})
					return err
				})
				if i%3 == 0 {
					try("update "+name, func() error {
						_, err := configMaps.Update(ctx, trigger(name, "2"), metav1.UpdateOptions{})
						return err
					})
				}
				time.Sleep(time.Until(next) / 2)
				switch i % 4 {
				case 1:
					try("delete "+name, func() error { return configMaps.Delete(ctx, name, metav1.DeleteOptions{}) })
					// The effect of its work on the target depends on which of the two is first.
					try("delete the target of "+name, func() error { return configMaps.Delete(ctx, name+"-target", metav1.DeleteOptions{}) })
				case 2:
					try("delete what was made for "+name, func() error { return configMaps.Delete(ctx, name+"-data", metav1.DeleteOptions{}) })
				case 3:
					try("change what was made for "+name, func() error {
						_, err := configMaps.Patch(ctx, name+"-copy", types.MergePatchType, []byte(`{"data":{"v":"mine","more":"x"}}`), metav1.PatchOptions{})
						return err
					})
				}
				time.Sleep(time.Until(next))
			}
		})
	}
	time.Sleep(d / 2)
	p.source(ns, "2")
	middle()
	running.Wait()
}
