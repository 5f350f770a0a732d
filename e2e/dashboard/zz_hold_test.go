//go:build hold

package dashboard

import (
	"os"
	"testing"
	"time"

	"github.com/ephor-dev/ephor/internal/dashboard"
)

func TestHold(t *testing.T) {
	namespaces(t, "billing", "checkout", "data-platform", "frontend", "identity", "monitoring", "search")
	before, after := shop()
	apply(t, before...)
	const speed = 400
	started := time.Now()
	s := serve(t, false, func(o *dashboard.Options) {
		o.Sample = 250 * time.Millisecond
		o.Now = func() time.Time { return started.Add(speed*(time.Since(started)) - 3*time.Hour) }
	})
	third := len(after) / 3
	for _, part := range [][]any{after[:third], after[third : 2*third], after[2*third:]} {
		time.Sleep(3 * time.Second)
		cluster.Must(t, manifest(t, part...), "apply", "-f", "-")
	}
	os.WriteFile("/tmp/h/dashboard/url", []byte(s.url), 0o644)
	os.WriteFile("/tmp/h/dashboard/kubeconfig", []byte(cluster.Kubeconfig), 0o644)
	for i := 0; i < 3600; i++ {
		time.Sleep(time.Second)
		if _, err := os.Stat("/tmp/h/dashboard/stop"); err == nil {
			return
		}
	}
}
