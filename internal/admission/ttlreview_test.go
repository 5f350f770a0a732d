package admission

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/world"
)

// A TTL label is never refused; an invalid one gives a warning.
func TestTTLReview(t *testing.T) {
	srv := NewCleanup(Options{Timeout: time.Second, Log: slog.New(slog.DiscardHandler), Now: time.Now},
		world.RootFunc(func(world.Reach) world.World { return world.World{} }), fakeCluster{}, func() error { return nil })
	srv.Open()
	for value, warning := range map[string]string{
		"10s": "", "2d": "", "2023-07-19T120000Z": "", "2023-07-19": "",
		"10ay": `cleanup.kyverno.io/ttl label value cannot be parsed as any recognizable format (parsing time "10ay" as "2006-01-02": cannot parse "10ay" as "2006")`,
	} {
		object := `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: a, labels: {cleanup.kyverno.io/ttl: "` + value + `"}}}`
		code, res := postReview(t, srv, "/verifyttl", reviewOf(t, object, "", "jane"))
		if code != 200 || !res.Allowed || strings.Join(res.Warnings, "; ") != warning {
			t.Errorf("%s: %d %v %q, want %q", value, code, res.Allowed, res.Warnings, warning)
		}
	}
}
