package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/simulation/apiserver"
)

// run carries out a plan in a bubble of its own.
func run(t *testing.T, p *plan) (out *result) {
	out = &result{}
	var stuck *time.Timer
	looks := 0
	stuck = time.AfterFunc(realTime, func() {
		text := make([]byte, 64<<20)
		text = text[:runtime.Stack(text, true)]
		if looks++; looks < 10 && (runs.Match(text) || !waits.Match(text)) {
			stuck.Reset(realTime) // the machine is busy
			return
		}
		name := filepath.Join(os.TempDir(), fmt.Sprintf("simulation-%d.txt", p.seed))
		_ = os.WriteFile(name, text, 0o600)
		panic(fmt.Sprintf("seed %d: the virtual time stands still, since a goroutine waits for something outside of it, such as a sync.Mutex that another one holds during a request; all goroutines are in %s", p.seed, name))
	})
	defer stuck.Stop()
	synctest.Test(t, func(t *testing.T) { simulate(t, p, out) })
	return out
}

// runs and waits match the stacks of goroutines of the bubble that can run, and of those that wait for a mutex. On a busy machine a goroutine
// waits for one that another goroutine, which could run, holds.
var (
	runs  = regexp.MustCompile(`(?m)^goroutine .* \[(runnable|running|syscall)[^\]]*synctest bubble`)
	waits = regexp.MustCompile(`(?m)^goroutine .* \[sync\.(RW)?Mutex\.`)
)

// realTime is the time that a run may take on a busy machine.
const realTime = 4 * time.Minute

// result is what became of a plan.
type result struct {
	wrong []string
	calls []apiserver.Call
	log   []string
	took  time.Duration // virtual time
}

// sim is a running plan.
type sim struct {
	*cluster
	plan    *plan
	active  []*fault
	version int
	// asked and created are the requests for an appender that were admitted, by version, and those of them that created it.
	asked, created map[string]int
	busy           sync.WaitGroup
	stolen         time.Time // when a lease was last taken by another client
}

// fault is a fault that lasts.
type fault struct {
	action
	until  time.Time
	random *rand.Rand
}

// times of a run
const (
	settle   = 20 * time.Minute // after the last fault everything is as it should be within this time
	look     = 10 * time.Second
	mostRate = 60 // lists, or watches, of one source in a minute
	// mostOfLeases is the same for Leases, which a ring lists every two seconds, and after failures every second, and for the record of
	// generated objects, which each replica writes once a second while it generates.
	mostOfLeases = 200
)

func simulate(t *testing.T, p *plan, out *result) {
	ctx, end := context.WithCancel(t.Context())
	began := time.Now()
	s := newSim(t, ctx, p, apiserver.Options{ShortTokens: p.many > 0})
	defer func() {
		end()
		s.close()
		out.calls, out.log, out.took = s.server.Calls(), s.log.lines, time.Since(began)
		s.cluster.mu.Lock()
		out.wrong = append(out.wrong, s.wrong...)
		s.cluster.mu.Unlock()
	}()
	s.prepare()
	s.server.Fault = s.fault
	start := time.Now()
	for _, a := range p.actions {
		time.Sleep(time.Until(start.Add(a.at)))
		s.busy.Go(func() { s.do(a) })
	}
	s.busy.Wait()
	var problems []string
	for deadline := time.Now().Add(settle); ; {
		time.Sleep(look)
		if problems = s.check(); len(problems) == 0 {
			time.Sleep(look)
			if problems = s.check(); len(problems) == 0 {
				break
			}
		}
		if time.Now().After(deadline) {
			break
		}
	}
	for _, text := range problems {
		s.bad("after %s: %s", settle, text)
	}
	for _, b := range s.server.Rates() {
		if b.Client == "user" {
			continue // several actions that fail are tried again side by side
		}
		if b.Requests > mostOfLeases || b.Requests > mostRate && !strings.Contains(b.Source, "/leases") && !strings.Contains(b.Source, "/ephor-generated-") {
			s.bad("%s sent %d requests within a minute: %s", b.Client, b.Requests, b.Source)
		}
	}
}

// newSim returns a cluster for a plan, without controllers.
func newSim(t *testing.T, ctx context.Context, p *plan, o apiserver.Options) *sim {
	s := &sim{cluster: newCluster(t, ctx, rand.New(rand.NewPCG(p.seed, 1)), o), plan: p, asked: map[string]int{}, created: map[string]int{}}
	s.skews = p.skews
	s.server.Observed = s.observed
	s.server.Flooded = s.flooded
	return s
}

// bad notes a broken invariant.
func (s *sim) bad(format string, args ...any) {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	if text := fmt.Sprintf(format, args...); !slices.Contains(s.wrong, text) && len(s.wrong) < 20 {
		s.wrong = append(s.wrong, text)
	}
}

// prepare makes what exists before the first action, and starts the controllers.
func (s *sim) prepare() {
	for _, name := range []string{"a", "b", "c"} {
		s.must(s.create(object("v1", "Namespace", "", name, nil, nil)))
		for _, target := range []string{"log", "log2"} {
			s.must(s.create(configMap(name, target, map[string]any{"kind": "log"}, map[string]any{"log": ""})))
		}
		s.must(s.create(configMap(name, "created", nil, map[string]any{"log": ""})))
	}
	s.must(s.create(configMap("a", "source", nil, map[string]any{"v": "0"})))
	s.must(s.create(configMap("a", "made-x", map[string]any{"of": "a user"}, map[string]any{"mine": "yes"})))
	for i := range s.plan.many {
		s.must(s.create(configMap("b", fmt.Sprintf("many-%04d", i), map[string]any{"kind": "trigger"}, map[string]any{"v": "1"})))
	}
	for _, name := range []string{"admission", "background", "reports", "cleanup"} {
		if n := s.plan.replicas[name]; n > 0 {
			s.start(name, n)
		}
	}
	if s.plan.replicas["admission"] > 0 {
		s.eventually("admission is ready", func() error {
			if len(s.server.Objects(validatingConfigurations)) == 0 {
				return errors.New("there are no webhook configurations")
			}
			return nil
		})
	}
	for _, name := range s.plan.policies {
		for _, o := range objects(policies[name]) {
			s.eventually("policy "+name, func() error { return s.apply(o) })
			s.served(o)
		}
	}
	time.Sleep(5 * time.Second)
}

var (
	validatingConfigurations = schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}
	mutatingConfigurations   = schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}
	configMaps               = schema.GroupResource{Resource: "configmaps"}
	leases                   = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	updateRequests           = schema.GroupResource{Group: "kyverno.io", Resource: "updaterequests"}
	clusterPolicies          = schema.GroupResource{Group: "kyverno.io", Resource: "clusterpolicies"}
	policyReports            = schema.GroupResource{Group: "wgpolicyk8s.io", Resource: "policyreports"}
	widgets                  = schema.GroupResource{Group: "example.com", Resource: "widgets"}
	allNamespaces            = schema.GroupResource{Resource: "namespaces"}
)

// served waits until admission evaluates a policy.
func (s *sim) served(policy map[string]any) {
	if s.plan.replicas["admission"] == 0 || policy["kind"] != "ClusterPolicy" {
		return
	}
	name := meta(policy)["name"].(string)
	s.eventually("policy "+name+" is ready", func() error {
		o := s.server.Object(clusterPolicies, "", name)
		if o == nil {
			return nil // deleted meanwhile
		}
		status, _ := o["status"].(map[string]any)
		if !strings.Contains(fmt.Sprint(status["conditions"]), "status:True") {
			return fmt.Errorf("%v", status)
		}
		return nil
	})
}

// eventually tries until it succeeds, for some minutes.
func (s *sim) eventually(what string, try func() error) bool {
	var err error
	for range 120 {
		if s.ctx.Err() != nil {
			return false
		}
		if err = try(); err == nil {
			return true
		}
		time.Sleep(2 * time.Second)
	}
	s.bad("%s: %v", what, err)
	return false
}

func object(version, kind, namespace, name string, labels, data map[string]any) map[string]any {
	m := map[string]any{"name": name}
	if namespace != "" {
		m["namespace"] = namespace
	}
	if labels != nil {
		m["labels"] = labels
	}
	o := map[string]any{"apiVersion": version, "kind": kind, "metadata": m}
	if data != nil {
		o["data"] = data
	}
	return o
}

func configMap(namespace, name string, labels, data map[string]any) map[string]any {
	return object("v1", "ConfigMap", namespace, name, labels, data)
}

func meta(o map[string]any) map[string]any {
	m, _ := o["metadata"].(map[string]any)
	return m
}

func text(o map[string]any, path ...string) string {
	for _, p := range path[:len(path)-1] {
		o, _ = o[p].(map[string]any)
	}
	t, _ := o[path[len(path)-1]].(string)
	return t
}

// do carries out one action.
func (s *sim) do(a action) {
	ns := []string{"a", "b", "c"}[a.m%3]
	name := fmt.Sprint("t", a.n)
	user := func(what func() error) {
		s.eventually(a.String(), func() error {
			err := what()
			if code := codeOf(err); code == http.StatusNotFound || code == http.StatusForbidden {
				return nil // the namespace or the kind is gone
			}
			return err
		})
	}
	s.log.line("user: %s", a)
	s.cluster.mu.Lock()
	s.version++
	v := fmt.Sprint(s.version)
	s.cluster.mu.Unlock()
	switch a.what {
	case "trigger":
		user(func() error {
			return s.apply(configMap(ns, name, map[string]any{"kind": "trigger"}, map[string]any{"v": v}))
		})
	case "untrigger":
		user(func() error { return s.remove(configMap(ns, name, nil, nil)) })
	case "relabel":
		user(func() error {
			return s.patch(configMap(ns, name, map[string]any{"kind": "other"}, nil))
		})
	case "tamper":
		user(func() error {
			return s.patch(configMap(ns, "made-"+name, nil, map[string]any{"v": "tampered"}))
		})
	case "discard":
		user(func() error {
			return s.remove(configMap(ns, "made-"+name, nil, nil))
		})
	case "discard-slowly": // it stays until its finalizer is removed
		user(func() error {
			o := configMap(ns, "made-"+name, nil, nil)
			meta(o)["finalizers"] = []any{"example.com/slow"}
			return s.patch(o)
		})
		user(func() error { return s.remove(configMap(ns, "made-"+name, nil, nil)) })
		time.Sleep(time.Duration(20*(1+a.n)) * time.Second)
		user(func() error {
			o := configMap(ns, "made-"+name, nil, nil)
			meta(o)["finalizers"] = nil
			return s.patch(o)
		})
	case "large":
		user(func() error {
			return s.apply(configMap(ns, name, map[string]any{"kind": "trigger"}, map[string]any{"v": v, "large": strings.Repeat("x", 700<<10)}))
		})
	case "discard-clone":
		user(func() error { return s.remove(configMap(fmt.Sprint("n", a.n), "cloned", nil, nil)) })
	case "appender":
		user(func() error {
			o := configMap(ns, fmt.Sprint("p", a.n), map[string]any{"kind": "appender"}, map[string]any{"v": v})
			key := ns + "/" + text(o, "metadata", "name")
			err := s.patch(o)
			if codeOf(err) == http.StatusNotFound {
				if err = s.create(o); err == nil {
					s.count(s.created, key)
					s.count(s.asked, key+":"+v)
					again := configMap(ns, fmt.Sprint("p", a.n), map[string]any{"kind": "appender"}, map[string]any{"v": v + "b"})
					if s.patch(again) == nil { // before its work is done
						s.count(s.asked, key+":"+v+"b")
					}
				}
				return err
			}
			if err == nil {
				s.count(s.asked, key+":"+v)
			}
			return err
		})
	case "unappender":
		user(func() error { return s.remove(configMap(ns, fmt.Sprint("p", a.n), nil, nil)) })
	case "log":
		user(func() error {
			return s.apply(configMap(ns, "log", nil, map[string]any{"other": v}))
		})
	case "unnamespace-slowly": // it stays until the finalizer of an object in it is removed
		n := fmt.Sprint("n", a.n)
		user(func() error {
			o := configMap(n, "slow", nil, map[string]any{"v": v})
			meta(o)["finalizers"] = []any{"example.com/slow"}
			return s.apply(o)
		})
		user(func() error { return s.remove(object("v1", "Namespace", "", n, nil, nil)) })
		time.Sleep(time.Duration(20*(1+a.n)) * time.Second)
		user(func() error {
			o := configMap(n, "slow", nil, nil)
			meta(o)["finalizers"] = nil
			return s.patch(o)
		})
	case "flag":
		user(func() error { return s.apply(configMap("c", "flag", nil, map[string]any{"v": v})) })
	case "unflag":
		user(func() error { return s.remove(configMap("c", "flag", nil, nil)) })
	case "unwidget":
		user(func() error { return s.remove(object("example.com/v1", "Widget", ns, fmt.Sprint("w", a.n), nil, nil)) })
	case "source":
		user(func() error { return s.apply(configMap("a", "source", nil, map[string]any{"v": v})) })
	case "namespace":
		user(func() error {
			return s.apply(object("v1", "Namespace", "", fmt.Sprint("n", a.n), map[string]any{"clone": "yes"}, nil))
		})
	case "unnamespace":
		user(func() error { return s.remove(object("v1", "Namespace", "", fmt.Sprint("n", a.n), nil, nil)) })
	case "policy", "policy-labelled":
		id := map[string]string{"policy": "copy", "policy-labelled": "labelled"}[a.what]
		for _, o := range objects(policies[id]) {
			meta(o)["annotations"] = map[string]any{"version": v}
			user(func() error { return s.apply(o) })
		}
	case "unpolicy":
		for _, o := range objects(policies["copy"]) {
			user(func() error { return s.remove(o) })
		}
	case "labelled":
		user(func() error {
			return s.apply(configMap(ns, fmt.Sprint("c", a.n), map[string]any{"team": v}, map[string]any{"v": v}))
		})
	case "label":
		user(func() error {
			return s.apply(configMap(ns, fmt.Sprint("c", a.n), map[string]any{"team": nil}, map[string]any{"v": v}))
		})
	case "unlabelled":
		user(func() error { return s.remove(configMap(ns, fmt.Sprint("c", a.n), nil, nil)) })
	case "report":
		user(func() error {
			_, err := s.request(http.MethodDelete, "/apis/wgpolicyk8s.io/v1alpha2/namespaces/"+ns+"/policyreports", "application/json", nil)
			return err
		})
	case "definition":
		user(func() error { return s.apply(objects(definition)[0]) })
	case "undefinition":
		user(func() error { return s.remove(objects(definition)[0]) })
	case "widget":
		user(func() error {
			o := object("example.com/v1", "Widget", ns, fmt.Sprint("w", a.n), map[string]any{"widget": "yes"}, nil)
			o["spec"] = map[string]any{"size": a.n % 2, "v": v}
			return s.apply(o)
		})
	case "group": // the kinds of another API server are away for some time
		s.server.SetDown("example.com", true)
		time.Sleep(time.Duration(10*(1+a.n)) * time.Second)
		s.server.SetDown("example.com", false)
	case "swept":
		user(func() error {
			return s.apply(configMap(ns, fmt.Sprint("s", a.n), map[string]any{"kind": "swept"}, nil))
		})
	case "expiring":
		user(func() error {
			return s.apply(configMap(ns, fmt.Sprint("e", a.n), map[string]any{"cleanup.kyverno.io/ttl": fmt.Sprint(10*(1+a.n), "s")}, nil))
		})
	case "webhook":
		all := s.server.Objects(validatingConfigurations)
		if len(all) > 0 {
			o := all[a.n%len(all)]
			user(func() error {
				return s.remove(map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": text(o, "metadata", "name")}})
			})
		}
	default:
		s.fail(a)
	}
}

// count counts a request of a user.
func (s *sim) count(of map[string]int, key string) {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	of[key]++
}

// patch changes an object that exists.
func (s *sim) patch(o map[string]any) error {
	path, name := pathOf(o)
	_, err := s.request(http.MethodPatch, path+"/"+name, "application/merge-patch+json", o)
	return err
}

// fail lets a fault happen.
func (s *sim) fail(a action) {
	s.cluster.mu.Lock()
	r := s.replicas[a.n%len(s.replicas)]
	s.cluster.mu.Unlock()
	lasts := time.Duration(a.m) * time.Second
	switch a.what {
	case "crash":
		r.crash()
		return
	case "stop":
		r.stop()
		return
	case "compact":
		s.server.Compact()
		return
	case "steal": // another client takes the lease of a controller, and gives it back
		name := map[string]string{"admission": "kyverno", "background": "kyverno-background-controller", "reports": "kyverno-reports-controller", "cleanup": "kyverno-cleanup-controller"}[r.process]
		s.cluster.mu.Lock()
		s.stolen = time.Now()
		s.cluster.mu.Unlock()
		_, _ = s.request(http.MethodPatch, "/apis/coordination.k8s.io/v1/namespaces/"+namespace+"/leases/"+name, "application/merge-patch+json", map[string]any{"spec": map[string]any{
			"holderIdentity": "another", "leaseDurationSeconds": 15, "renewTime": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"),
		}})
		return
	case "hold", "cut":
		r.mu.Lock()
		client := r.client
		r.mu.Unlock()
		if a.what == "hold" {
			client.Hold()
			time.Sleep(lasts)
			client.Release()
		} else {
			client.Cut()
			time.Sleep(lasts)
			client.Join()
		}
		return
	case "apiserver":
		s.server.Restart()
	}
	f := &fault{action: a, until: time.Now().Add(lasts), random: rand.New(rand.NewPCG(s.plan.seed, uint64(a.n)))}
	s.cluster.mu.Lock()
	s.active = append(s.active, f)
	s.cluster.mu.Unlock()
	if a.what == "behind" {
		s.server.EndWatches(clusterPolicies)
	}
	if a.what == "cutwatches" {
		s.server.EndWatches(f.kind())
	}
	time.Sleep(lasts)
}

// kind is the kind that a fault of one kind is about.
func (f *fault) kind() schema.GroupResource {
	all := []schema.GroupResource{configMaps, allNamespaces, clusterPolicies, updateRequests, policyReports, {Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, leases}
	return all[f.n%len(all)]
}

// fault decides what goes wrong with a request.
func (s *sim) fault(q *apiserver.Request) (out apiserver.Fault) {
	if q.Client == "user" {
		return out
	}
	s.leads(q)
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	now := time.Now()
	for _, f := range s.active {
		if !now.Before(f.until) {
			continue
		}
		chance := func(percent int) bool { return f.random.IntN(100) < percent }
		discovery := q.Verb == "" && (strings.HasPrefix(q.Path, "/api")) && q.Resource == ""
		switch f.what {
		case "apiserver":
			out.Status = &apierrors.NewServiceUnavailable("the API server starts").ErrStatus
		case "frozen":
			out.Delay = max(out.Delay, f.until.Sub(now))
		case "throttle":
			if chance(50) {
				out.Status = &apierrors.NewTooManyRequests("too many", []int{1, 1, 5, 20}[f.n%4]).ErrStatus
			}
		case "errors":
			if chance(30) {
				out.Status = &apierrors.NewInternalError(errors.New("simulated")).ErrStatus
			}
		case "conflicts":
			if (q.Verb == "update" || q.Verb == "patch") && chance(30+70*(f.n%2)) {
				out.Status = &apierrors.NewConflict(q.GroupResource(), q.Name, errors.New("simulated")).ErrStatus
			}
		case "denytarget":
			if q.Writes() && q.GroupResource() == configMaps && q.Name == []string{"log", "log2"}[f.n%2] {
				out.Status = &apierrors.NewForbidden(configMaps, q.Name, errors.New("simulated")).ErrStatus
			}
		case "denyrecord":
			if q.Writes() && q.GroupResource() == configMaps && q.Namespace == namespace {
				out.Status = &apierrors.NewForbidden(configMaps, q.Name, errors.New("simulated")).ErrStatus
			}
		case "behind": // the background controllers do not see the policies of now
			if q.GroupResource() == clusterPolicies && strings.HasPrefix(q.Client, "background-") {
				out.Delay = max(out.Delay, f.until.Sub(now))
			}
		case "noleases": // one replica cannot reach its Lease, and does all else
			if q.GroupResource() == leases && strings.HasPrefix(q.Client, fmt.Sprintf("admission-%d#", f.n%3)) {
				out.Delay = max(out.Delay, f.until.Sub(now))
			}
		case "denyevents":
			if q.Writes() && q.Resource == "events" {
				out.Status = &apierrors.NewForbidden(q.GroupResource(), q.Name, errors.New("simulated")).ErrStatus
			}
		case "denyreports":
			if q.Writes() && q.GroupResource() == policyReports {
				out.Status = &apierrors.NewForbidden(policyReports, q.Name, errors.New("simulated")).ErrStatus
			}
		case "denyrequests": // no UpdateRequest can be written before its request is answered
			if q.Writes() && q.GroupResource() == updateRequests && strings.HasPrefix(q.Client, "admission-") {
				out.Status = &apierrors.NewForbidden(updateRequests, q.Name, errors.New("simulated")).ErrStatus
			}
		case "verb": // a verb of a kind is forbidden, or not supported
			verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
			if kind := f.kind(); q.GroupResource() == kind && q.Verb == verbs[f.n/7%len(verbs)] && kind != leases {
				if f.n%2 == 0 {
					out.Status = &apierrors.NewForbidden(kind, q.Name, errors.New("simulated")).ErrStatus
				} else {
					out.Status = &apierrors.NewMethodNotSupported(kind, q.Verb).ErrStatus
				}
			}
		case "stale": // lists from the cache of the API server are behind
			out.Behind = int64(1 + f.random.IntN(20))
		case "lost":
			out.LoseAnswer = chance(20)
		case "slow":
			out.Delay = max(out.Delay, time.Duration(f.random.IntN(2000))*time.Millisecond)
			out.AnswerDelay = time.Duration(f.random.IntN(2000)) * time.Millisecond
		case "cutwatches":
			if q.Verb == "watch" && q.GroupResource() == f.kind() {
				out.CutAfter = time.Millisecond
			}
		case "forbid":
			if (q.Verb == "watch" || f.n%2 == 0 && q.Verb == "list") && q.GroupResource() == f.kind() {
				out.Status = &apierrors.NewForbidden(f.kind(), "", errors.New("simulated")).ErrStatus
			}
		case "nodiscovery":
			if discovery {
				out.Status = &apierrors.NewServiceUnavailable("simulated").ErrStatus
			}
		case "hangdiscovery":
			if discovery {
				out.Delay = max(out.Delay, f.until.Sub(now))
			}
		case "pages": // each page of a list comes after its token has expired
			if q.Verb == "list" && q.Query.Get("continue") != "" {
				go s.server.Compact()
				out.Delay = max(out.Delay, time.Millisecond)
			}
		default:
			panic("unknown action " + f.what)
		}
		if out.Status != nil || out.Delay > 0 || out.LoseAnswer || out.CutAfter > 0 {
			out.Name = f.what
		}
	}
	return out
}

// flooded ends a replica that would send requests for ever.
func (s *sim) flooded(q *apiserver.Request) {
	s.bad("%s sends thousands of requests a minute: %s %s", q.Client, q.Verb, q.Path)
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	for _, r := range s.replicas {
		r.mu.Lock()
		if r.client.Name == q.Client {
			r.gone = true
			r.kill()
		}
		r.mu.Unlock()
	}
}

// leads checks that only the holder of the lease does what belongs to the leader.
func (s *sim) leads(q *apiserver.Request) {
	if !q.Writes() || q.GroupResource() != validatingConfigurations && q.GroupResource() != mutatingConfigurations {
		return
	}
	pod, _, _ := strings.Cut(q.Client, "#")
	lease := map[string]string{"admission": "kyverno", "cleanup": "kyverno-cleanup-controller"}[strings.Split(pod, "-")[0]]
	holder := text(s.server.Object(leases, namespace, lease), "spec", "holderIdentity")
	s.cluster.mu.Lock()
	robbed := time.Since(s.stolen) < 15*time.Second // the leader sees this only when it renews
	s.cluster.mu.Unlock()
	if holder != "" && holder != pod && !robbed {
		s.bad("%s writes %s while %s leads", q.Client, q.Path, holder)
	}
}

// observed checks that controllers change only what is theirs.
func (s *sim) observed(c apiserver.Change) {
	pod, _, controller := strings.Cut(c.Client, "#")
	if !controller || c.Resource != configMaps {
		return
	}
	ns, name, _ := strings.Cut(c.Key, "/")
	if ns == namespace {
		return
	}
	of := c.Before
	if of == nil {
		of = c.After
	}
	labels, _ := meta(of)["labels"].(map[string]any)
	switch strings.Split(pod, "-")[0] {
	case "background":
		if (strings.HasPrefix(name, "made-") || name == "cloned") && labels["of"] == nil || (labels["kind"] == "log" || name == "created") && c.After != nil {
			return
		}
	case "cleanup":
		if life, _ := labels["cleanup.kyverno.io/ttl"].(string); c.After == nil && life != "" {
			made, _ := time.Parse(time.RFC3339, text(of, "metadata", "creationTimestamp"))
			if d, _ := time.ParseDuration(life); time.Since(made) < d-s.skews[pod] {
				go s.bad("%s deleted the ConfigMap %s %s after its creation, before its time %s", c.Client, c.Key, time.Since(made), life)
			}
			return
		}
		if c.After == nil && labels["kind"] == "swept" {
			return
		}
	}
	if c.Before != nil && c.After != nil && fmt.Sprint(c.Before["data"]) == fmt.Sprint(c.After["data"]) && name == "source" {
		return // the labels of a source say that it is one
	}
	go s.bad("%s changed the ConfigMap %s, which is not its own (sim.observed in run_test.go has what each controller may change): %v %v", c.Client, c.Key, c.Before, c.After)
}
