package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/internal/devcluster"
)

// evaluator evaluates the 18 policies on a control plane.
type evaluator struct {
	name  string
	peer  string // the program that must be named with PEER; empty for none
	start func(context.Context, *bench, *devcluster.Cluster) (*started, error)
}

// started is an evaluator that runs, without policies.
type started struct {
	urls func(context.Context) ([]string, error) // those of the webhooks that the API server calls for a Pod; nil if it evaluates the policies itself
	pid  int
	// install creates the 18 policies, and grow a number of policies for Pods that do not match. Both return when the evaluator says that all are
	// in force; nil for none.
	install func(context.Context) error
	grow    func(ctx context.Context, n int) error
}

// The evaluators of which the README has figures.
const ephorClassic, kyvernoClassic = "Ephor, classic policies", "Kyverno 1.19.1, classic policies"

// evaluators in the order of the table.
var evaluators = []evaluator{
	{"no policies", "", func(context.Context, *bench, *devcluster.Cluster) (*started, error) { return &started{}, nil }},
	{"a webhook that does nothing", "", startNothing},
	{"the API server, as ValidatingAdmissionPolicies", "", startNative},
	{ephorClassic, "", ephorWith(classicPolicies)},
	{"Ephor, policies in CEL", "", ephorWith(celPolicies)},
	{kyvernoClassic, kyvernoAdmission, kyvernoWith(classicPolicies)},
	{"Kyverno 1.19.1, policies in CEL", kyvernoAdmission, kyvernoWith(celPolicies)},
	{"Gatekeeper 3.23.0, in Rego", gatekeeperManager, gatekeeperWith(regoTemplate)},
	{"Gatekeeper 3.23.0, in CEL", gatekeeperManager, gatekeeperWith(celTemplate)},
}

// startNothing registers the no-op webhook for Pods.
func startNothing(ctx context.Context, b *bench, c *devcluster.Cluster) (*started, error) {
	bundle, err := certificateOf(strings.TrimSuffix(strings.TrimPrefix(b.noop.URL, "https://"), "/validate"))
	if err != nil {
		return nil, err
	}
	none := admissionregistrationv1.SideEffectClassNone
	return &started{pid: b.noop.PID}, register(ctx, c, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "noop"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "noop.bench.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &b.noop.URL, CABundle: bundle},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	})
}

// register creates a webhook configuration.
func register(ctx context.Context, c *devcluster.Cluster, configuration *admissionregistrationv1.ValidatingWebhookConfiguration) error {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	_, err = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, configuration, metav1.CreateOptions{})
	return err
}

// startNative lets the API server evaluate the policies in CEL.
func startNative(_ context.Context, b *bench, c *devcluster.Cluster) (*started, error) {
	apply := func(ctx context.Context, policies []byte) error {
		_, err := c.Kubectl(ctx, policies, "apply", "-f", "-")
		return err
	}
	return &started{
		install: func(ctx context.Context) error {
			policies, err := nativePolicies(filepath.Join(b.root, "examples", celPolicies))
			if err != nil {
				return err
			}
			return apply(ctx, policies)
		},
		grow: func(ctx context.Context, n int) error {
			var all []byte
			for i := range n {
				one, err := nativePolicy(celExcluded(i))
				if err != nil {
					return err
				}
				all = append(all, one...)
			}
			return apply(ctx, all)
		},
	}, nil
}

// ephorWith returns the start of our admission process for a folder of examples.
func ephorWith(folder string) func(context.Context, *bench, *devcluster.Cluster) (*started, error) {
	return func(ctx context.Context, b *bench, c *devcluster.Cluster) (*started, error) {
		ephor, err := c.Install(ctx, "dev")
		if err != nil {
			return nil, err
		}
		if err := ephor.WithoutForwarder(devcluster.Admission); err != nil {
			return nil, err
		}
		replica, err := ephor.StartAdmission(ctx, devcluster.LongPaths...)
		if err != nil {
			return nil, err
		}
		s := b.kyvernoPolicies(c, folder)
		s.pid = replica.PID()
		s.urls = func(ctx context.Context) ([]string, error) { return webhookURLs(ctx, c, folder, replica.Addr) }
		return s, nil
	}
}

// kyvernoPolicies returns what installs and grows the policies of a folder in the Kyverno language.
func (b *bench) kyvernoPolicies(c *devcluster.Cluster, folder string) *started {
	more := excluded
	if folder == celPolicies {
		more = celExcluded
	}
	return &started{
		install: func(ctx context.Context) error {
			// The certificate of a webhook for policies may be missing at first.
			if err := c.Wait(ctx, "the policies to be accepted", func() error {
				_, err := c.Kubectl(ctx, nil, "apply", "-f", filepath.Join(b.root, "examples", folder))
				return err
			}); err != nil {
				return err
			}
			return policiesReady(ctx, c, folder)
		},
		grow: func(ctx context.Context, n int) error {
			text, err := documents(n, more)
			if err != nil {
				return err
			}
			if _, err := c.Kubectl(ctx, text, "apply", "-f", "-"); err != nil {
				return err
			}
			return policiesReady(ctx, c, folder)
		},
	}
}

// policiesReady waits until all policies of the kind of a folder of examples are ready.
func policiesReady(ctx context.Context, c *devcluster.Cluster, folder string) error {
	if folder == celPolicies {
		return allReady(ctx, c, "validatingpolicies", func(policy object) bool {
			ready, _, _ := unstructured.NestedBool(policy, "status", "conditionStatus", "ready")
			return ready
		})
	}
	return allReady(ctx, c, "clusterpolicies", func(policy object) bool {
		conditions, _, _ := unstructured.NestedSlice(policy, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			condition, _ := c.(object)
			return condition["type"] == "Ready" && condition["status"] == "True"
		})
	})
}

// allReady waits until all objects of a kind are ready. It lists them: `kubectl wait` asks for each by itself, 0.1 s for each policy.
func allReady(ctx context.Context, c *devcluster.Cluster, kind string, ready func(object) bool) error {
	return c.Wait(ctx, kind+" in force", func() error {
		out, err := c.Kubectl(ctx, nil, "get", kind, "-o", "json")
		if err != nil {
			return err
		}
		var list struct{ Items []object }
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			return err
		}
		if waiting := slices.DeleteFunc(list.Items, ready); len(waiting) > 0 {
			return fmt.Errorf("%d are not ready", len(waiting))
		}
		return nil
	})
}

// documents returns n objects as YAML.
func documents(n int, object func(int) object) (out []byte, err error) {
	for i := range n {
		one, err := yaml.Marshal(object(i))
		if err != nil {
			return nil, err
		}
		out = append(append(out, "---\n"...), one...)
	}
	return out, nil
}

// grown is the number of policies that are added, all for Pods, of which none matches: each is limited to another name, namespace or label.
const grown = 300

// evaluation are the figures of one evaluator.
type evaluation struct {
	good, bad        time.Duration // CPU of a review
	goodX, badX      float64       // the same in terms of the no-op's
	goodGrown        float64       // a review of the good Pod with the additional policies, in terms of one without them
	installed, added time.Duration // until the 18 policies, and the additional ones, are in force
	atRest, loaded   float64       // MB
	created
}

// evaluate measures one evaluator.
func (b *bench) evaluate(e evaluator) (got evaluation, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	c, err := devcluster.Start(ctx, devcluster.Options{})
	if err != nil {
		return got, err
	}
	defer c.Stop()
	s, err := e.start(ctx, b, c)
	if err != nil {
		return got, err
	}
	if s.install != nil {
		begin := time.Now()
		if err := s.install(ctx); err != nil {
			return got, err
		}
		if err := refusesBad(ctx, c); err != nil {
			return got, err
		}
		got.installed = time.Since(begin)
	}
	if s.urls != nil {
		urls, err := s.urls(ctx)
		if err != nil {
			return got, err
		}
		if len(urls) != 1 {
			return got, fmt.Errorf("the API server calls %d webhooks for a Pod, not one: %s", len(urls), strings.Join(urls, ", "))
		}
		server := load.NewServer(urls[0], s.pid, connections)
		time.Sleep(settle)
		if got.atRest, err = load.ResidentMB(s.pid); err != nil {
			return got, err
		}
		if err := b.reviewed(server, &got, true); err != nil {
			return got, err
		}
	}
	if got.created, err = createsOn(c, s.pid); err != nil {
		return got, err
	}
	if s.urls != nil {
		if got.loaded, err = load.ResidentMB(s.pid); err != nil {
			return got, err
		}
	}
	if s.grow == nil {
		return got, nil
	}
	begin := time.Now()
	if err := s.grow(ctx, grown); err != nil {
		return got, err
	}
	got.added = time.Since(begin)
	if s.urls == nil {
		return got, nil
	}
	urls, err := s.urls(ctx)
	if err != nil {
		return got, err
	}
	var cost float64
	for _, url := range urls { // a Pod asks all of them
		var more evaluation
		if err := b.reviewed(load.NewServer(url, s.pid, connections), &more, false); err != nil {
			return got, err
		}
		cost += more.goodX
	}
	got.goodGrown = cost / got.goodX
	return got, nil
}

// refusesBad waits until the API server refuses the bad Pod.
func refusesBad(ctx context.Context, c *devcluster.Cluster) error {
	client, err := unlimited(c)
	if err != nil {
		return err
	}
	return c.Wait(ctx, "the policies to be in force", func() error {
		if err := create(ctx, client, true); err == nil {
			return errors.New("the bad Pod is still admitted")
		}
		return nil
	})
}

const (
	reviewRounds = 5
	// A round lasts about this long, with at least so many reviews, since a peer answers some hundreds a second.
	reviewTime    = 1500 * time.Millisecond
	reviewMinimum = 80
)

// reviewed measures reviews of the good and, withBad, the bad Pod, with rounds of the no-op between them.
func (b *bench) reviewed(s *load.Server, got *evaluation, withBad bool) error {
	good, bad := load.Review(load.Pod("shop", false)), load.Review(load.Pod("shop", true))
	first, err := s.Round(reviewMinimum, load.Question{Body: good, Allowed: true}) // it warms up, and tells the rate
	if err != nil {
		return err
	}
	n := max(reviewMinimum, int(first.PerSecond*reviewTime.Seconds()))
	var cpu [3][]time.Duration
	for range reviewRounds {
		for k, ask := range []struct {
			server   *load.Server
			n        int
			question load.Question
		}{
			{b.noop, 4000, load.Question{Body: good, Allowed: true}},
			{s, n, load.Question{Body: good, Allowed: true}},
			{s, n, load.Question{Body: bad}},
		} {
			if k == 2 && !withBad {
				break
			}
			r, err := ask.server.Round(ask.n, ask.question)
			if err != nil {
				return err
			}
			cpu[k] = append(cpu[k], r.CPU)
		}
	}
	nothing := load.Median(cpu[0])
	got.good = load.Median(cpu[1])
	got.goodX = float64(got.good) / float64(nothing)
	if withBad {
		got.bad = load.Median(cpu[2])
		got.badX = float64(got.bad) / float64(nothing)
	}
	return nil
}

// columns of the table of evaluators.
var columns = []string{"Who evaluates the 18 policies", "CPU of a review: good Pod, bad Pod", "… in terms of the webhook that does nothing",
	fmt.Sprintf("… good Pod, with %d more policies that do not match", grown), "Creations of Pods", "… CPU of the API server + the process, for each",
	"Memory at rest, after load", fmt.Sprintf("18 policies in force after, %d more after", grown), "Measured"}

// cells returns the row of an evaluator.
func (e evaluation) cells(name, day string) []string {
	dash := func(known bool, format string, args ...any) string {
		if !known {
			return "–"
		}
		return fmt.Sprintf(format, args...)
	}
	asked, added := e.good > 0, e.added > 0
	return []string{name,
		dash(asked, "%d µs, %d µs", e.good.Microseconds(), e.bad.Microseconds()),
		dash(asked, "%.3g x, %.3g x", e.goodX, e.badX),
		dash(e.goodGrown > 0, "%.2f x", e.goodGrown),
		fmt.Sprintf("%.0f/s, p50 %.0f ms, p99 %.0f ms", e.perSecond, ms(e.p50), ms(e.p99)),
		fmt.Sprintf("%.1f + %.1f ms", ms(e.created.server), ms(e.own)),
		dash(asked, "%.0f MB, %.0f MB", e.atRest, e.loaded),
		dash(added, "%.1f s, %.1f s", e.installed.Seconds(), e.added.Seconds()),
		day,
	}
}

// compareEvaluators measures all evaluators whose programs are there, and returns their rows.
func (b *bench) compareEvaluators(names []string) (map[string]evaluation, error) {
	noop, stop, err := load.StartNoop(b.root, b.dir, connections)
	if err != nil {
		return nil, err
	}
	defer stop()
	b.noop = noop
	out := map[string]evaluation{}
	for _, e := range evaluators {
		switch {
		case len(names) > 0 && !slices.Contains(names, e.name):
			continue
		case e.peer != "" && b.peers[e.peer] == "":
			fmt.Printf("%s: left out, since PEER does not name the program %s\n", e.name, e.peer)
			continue
		}
		got, err := b.evaluate(e)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		fmt.Println(strings.Join(got.cells(e.name, ""), " | "))
		out[e.name] = got
	}
	return out, nil
}
