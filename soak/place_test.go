package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ephor-dev/ephor/internal/devcluster"
)

const namespace = "kyverno"

// place is a control plane with Ephor on it.
type place struct {
	*testing.T
	cluster *devcluster.Cluster
	ephor   *devcluster.Ephor
	client  *kubernetes.Clientset
}

// install starts a control plane for a test and installs Ephor and a policy; no controller runs yet.
func install(t *testing.T, apiServerFlags ...string) *place {
	t.Helper()
	c, err := devcluster.Start(t.Context(), devcluster.Options{Progress: os.Stderr, APIServerFlags: apiServerFlags})
	if err != nil {
		t.Fatalf("devcluster: %v", err)
	}
	t.Cleanup(c.Stop)
	p := &place{T: t, cluster: c}
	if p.client, err = kubernetes.NewForConfig(p.cluster.Config); err != nil {
		t.Fatal(err)
	}
	p.installAgain()
	return p
}

// installAgain installs Ephor where it is not, or no longer.
func (p *place) installAgain() {
	p.Helper()
	var err error
	if p.ephor, err = p.cluster.InstallEphor(p.Context()); err != nil {
		p.Fatal(err)
	}
	p.apply(requireTeam)
}

const requireTeam = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: require-team}
spec:
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [default]}}]}
    validate:
      failureAction: Enforce
      message: "the label team is required"
      pattern: {metadata: {labels: {team: "?*"}}}
`

// start starts n replicas of the admission controller and waits until the policy is enforced.
func (p *place) start(n int, args ...string) []*devcluster.Replica {
	p.Helper()
	var out []*devcluster.Replica
	for range n {
		r, err := p.ephor.StartAdmission(p.Context(), args...)
		if err != nil {
			p.Fatal(err)
		}
		out = append(out, r)
	}
	p.eventually("the policy is enforced", func() error { return p.enforced(p.Context()) })
	return out
}

func (p *place) kubectl(args ...string) string {
	p.Helper()
	out, err := p.cluster.Kubectl(context.Background(), nil, args...)
	if err != nil {
		p.Fatal(err)
	}
	return out
}

func (p *place) apply(manifest string) {
	p.Helper()
	if _, err := p.cluster.Kubectl(context.Background(), []byte(manifest), "apply", "-f", "-"); err != nil {
		p.Fatal(err)
	}
}

// create tries to create a ConfigMap, without storing it.
func (p *place) create(ctx context.Context, team string) error {
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "asked-", Namespace: "default"}}
	if team != "" {
		o.Labels = map[string]string{"team": team}
	}
	_, err := p.client.CoreV1().ConfigMaps("default").Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// enforced tells why the policy is not enforced.
func (p *place) enforced(ctx context.Context) error {
	if err := p.create(ctx, "a"); err != nil {
		return fmt.Errorf("a clean object is refused: %w", err)
	}
	switch err := p.create(ctx, ""); {
	case err == nil:
		return fmt.Errorf("a violating object is admitted")
	case !strings.Contains(err.Error(), "the label team is required"):
		return fmt.Errorf("a violating object is refused for another reason: %w", err)
	}
	return nil
}

// counts is what load saw.
type counts struct {
	asked, failed atomic.Int64
	failures      sync.Map // text → when it was last seen
}

// load asks all the time until the returned function is called.
func (p *place) load(clients int) (finish func() *counts) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &counts{}
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := p.enforced(context.Background()); err != nil {
					c.failed.Add(1)
					c.failures.Store(err.Error(), time.Now().Format(time.TimeOnly))
				}
				c.asked.Add(2)
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	return func() *counts {
		cancel()
		wg.Wait()
		c.failures.Range(func(text, at any) bool { p.Logf("%s: %v", at, text); return true })
		return c
	}
}

// eventually waits until f returns nil, for at most a minute and a half, and returns how long that took.
func (p *place) eventually(what string, f func() error) time.Duration {
	p.Helper()
	begin := time.Now()
	var err error
	for time.Since(begin) < 90*time.Second {
		if err = f(); err == nil {
			return time.Since(begin)
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.Fatalf("waited in vain until %s: %v", what, err)
	return 0
}

// logged counts the lines of a replica's log that hold all the words.
func logged(r *devcluster.Replica, words ...string) int {
	n := 0
	for _, line := range strings.Split(r.Tail(100000), "\n") {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			n++
		}
	}
	return n
}

// podSecurity applies the 18 policies of examples/pod-security and waits until a bad Pod is refused.
func (p *place) podSecurity() {
	p.Helper()
	root, err := devcluster.Root()
	if err != nil {
		p.Fatal(err)
	}
	p.kubectl("apply", "-f", filepath.Join(root, "examples", "pod-security"))
	p.kubectl("wait", "--for=condition=Ready", "--timeout=120s", "clusterpolicies", "--all")
	p.kubectl("create", "serviceaccount", "shop")
}

// alive tells how a replica ended, if it did.
func alive(r *devcluster.Replica) error {
	select {
	case <-r.Done():
		return fmt.Errorf("%s ended:\n%s", r.Name, r.Tail(20))
	default:
		return nil
	}
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
