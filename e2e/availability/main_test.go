package availability

import (
	"context"
	"fmt"
	"os"
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

// One control plane serves all tests of the package. Each test starts the replicas that it needs.
var (
	cluster *devcluster.Cluster
	ephor   *devcluster.Ephor
	client  *kubernetes.Clientset
)

const namespace = "kyverno"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	err := func() (err error) {
		if cluster, err = devcluster.Start(ctx, devcluster.Options{Progress: os.Stdout}); err != nil {
			return err
		}
		if ephor, err = cluster.InstallEphor(ctx); err != nil {
			return err
		}
		if client, err = kubernetes.NewForConfig(cluster.Config); err != nil {
			return err
		}
		_, err = cluster.Kubectl(ctx, []byte(requireTeam), "apply", "-f", "-")
		return err
	}()
	if cluster != nil {
		defer cluster.Stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/availability:", err)
		return 1
	}
	return m.Run()
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

// start starts n replicas for a test and stops them after it.
func start(t *testing.T, n int, args ...string) []*devcluster.Replica {
	t.Helper()
	var replicas []*devcluster.Replica
	for range n {
		r, err := ephor.StartAdmission(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, r) })
		replicas = append(replicas, r)
	}
	eventually(t, "the policy is enforced", func() error { return enforced(t.Context()) })
	return replicas
}

func stop(t *testing.T, r *devcluster.Replica) {
	select {
	case <-r.Done():
		return
	default:
	}
	if err := r.Stop(40 * time.Second); err != nil {
		t.Errorf("%s did not end by itself: %v\n%s", r.Name, err, r.Tail(10))
	}
}

// create tries to create a ConfigMap, without storing it.
func create(ctx context.Context, team string) error {
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "asked-", Namespace: "default"}}
	if team != "" {
		o.Labels = map[string]string{"team": team}
	}
	_, err := client.CoreV1().ConfigMaps("default").Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// enforced tells why the policy is not enforced.
func enforced(ctx context.Context) error {
	if err := create(ctx, "a"); err != nil {
		return fmt.Errorf("a clean object is refused: %w", err)
	}
	switch err := create(ctx, ""); {
	case err == nil:
		return fmt.Errorf("a violating object is admitted")
	case !strings.Contains(err.Error(), "the label team is required"):
		return fmt.Errorf("a violating object is refused for another reason: %w", err)
	}
	return nil
}

// load asks all the time, until the returned function is called, which fails the test when a clean object was refused, a
// violating one admitted, or a review not answered.
func load(t *testing.T, clients int) (finish func() (asked int64)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var asked atomic.Int64
	var failures sync.Map
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := enforced(context.Background()); err != nil {
					failures.Store(err.Error(), time.Now().Format(time.TimeOnly))
				}
				asked.Add(2)
				time.Sleep(5 * time.Millisecond) // the machine has others to serve
			}
		})
	}
	return func() int64 {
		cancel()
		wg.Wait()
		failures.Range(func(text, at any) bool { t.Errorf("%s: %v", at, text); return true })
		if asked.Load() < 20 {
			t.Errorf("only %d objects were tried: the test proves nothing", asked.Load())
		}
		return asked.Load()
	}
}

// eventually waits until f returns nil, for at most a minute, and returns how long that took.
func eventually(t testing.TB, what string, f func() error) time.Duration {
	t.Helper()
	begin := time.Now()
	var err error
	for time.Since(begin) < time.Minute {
		if err = f(); err == nil {
			return time.Since(begin)
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("waited in vain until %s: %v", what, err)
	return 0
}

// says waits until the log of a replica holds a line with all the words.
func says(t testing.TB, r *devcluster.Replica, words ...string) time.Duration {
	t.Helper()
	return eventually(t, fmt.Sprintf("%s says %q", r.Name, words), func() error {
		if logged(r, words...) > 0 {
			return nil
		}
		return fmt.Errorf("its log ends with:\n%s", r.Tail(10))
	})
}

// logged counts the lines of a replica's log that hold all the words.
func logged(r *devcluster.Replica, words ...string) int {
	n := 0
	for _, line := range strings.Split(r.Tail(10000), "\n") {
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

func kubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := cluster.Kubectl(context.Background(), nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
