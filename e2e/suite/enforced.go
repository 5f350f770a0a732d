package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/devcluster"
)

// RequireTeam is a policy that denies ConfigMaps of the namespace default without the label team.
const RequireTeam = `
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

// CreateConfigMap sends a dry-run creation of a ConfigMap with the label team, or without it if team is empty.
func (c *Cluster) CreateConfigMap(ctx context.Context, team string) error {
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "asked-", Namespace: "default"}}
	if team != "" {
		o.Labels = map[string]string{"team": team}
	}
	_, err := c.Client.CoreV1().ConfigMaps("default").Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// Enforced returns the reason why RequireTeam is not enforced, and nil if it is.
func (c *Cluster) Enforced(ctx context.Context) error {
	if err := c.CreateConfigMap(ctx, "a"); err != nil {
		return fmt.Errorf("a clean object is refused: %w", err)
	}
	switch err := c.CreateConfigMap(ctx, ""); {
	case err == nil:
		return errors.New("a violating object is admitted")
	case !strings.Contains(err.Error(), "the label team is required"):
		return fmt.Errorf("a violating object is refused for another reason: %w", err)
	}
	return nil
}

// StartEnforcing starts n admission controllers for a test, as Start does, and waits until RequireTeam is enforced.
func (c *Cluster) StartEnforcing(t testing.TB, n int, args ...string) []*devcluster.Replica {
	t.Helper()
	var replicas []*devcluster.Replica
	for range n {
		replicas = append(replicas, c.Start(t, devcluster.Admission, args...))
	}
	Until(t, "the policy is enforced", func() error { return c.Enforced(t.Context()) })
	return replicas
}

// Load counts the requests of Cluster.Load, and those whose answer differed from RequireTeam.
type Load struct{ Asked, Failed int64 }

// Load checks with all clients that RequireTeam is enforced, continuously until the returned function is called. That function waits for
// twenty further requests, and logs failures.
func (c *Cluster) Load(t testing.TB, clients int) (finish func() Load) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var asked, failed atomic.Int64
	var failures sync.Map // text → time of its last occurrence
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := c.Enforced(context.Background()); err != nil {
					failed.Add(1)
					failures.Store(err.Error(), time.Now().Format(time.TimeOnly))
				}
				asked.Add(2)
				time.Sleep(5 * time.Millisecond) // leaves the processor to other processes
			}
		})
	}
	return func() Load {
		from := asked.Load()
		Until(t, "twenty further requests are made", func() error {
			if n := asked.Load() - from; n < 20 {
				return fmt.Errorf("%d are", n)
			}
			return nil
		})
		cancel()
		wg.Wait()
		failures.Range(func(text, at any) bool { t.Logf("%s: %v", at, text); return true })
		return Load{asked.Load(), failed.Load()}
	}
}
