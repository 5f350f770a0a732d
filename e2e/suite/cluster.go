package suite

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/ephor-dev/ephor/internal/devcluster"
)

// Namespace is the namespace of the installation.
const Namespace = "kyverno"

// Options of a control plane for tests.
type Options struct {
	// Values names the file charts/values/⟨values⟩.yaml with which the chart is rendered; "dev" if empty.
	Values string
	// APIServerFlags are further flags of kube-apiserver.
	APIServerFlags []string
	// Audited makes the package fail if a controller sends a request that docs/security/rbac.md does not list.
	Audited bool
	// Setup runs once before the tests of a package, with Ephor installed and no controller running; nil for none.
	Setup func(context.Context) error
}

// Cluster is a control plane with Ephor installed. Tests start the controllers.
type Cluster struct {
	*devcluster.Cluster
	Ephor  *devcluster.Ephor
	Client *kubernetes.Clientset // as administrator
}

// Main starts the control plane that the tests of a package share, runs them, and returns the exit code.
func (c *Cluster) Main(m *testing.M, o Options) int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*devcluster.Patience())
	defer cancel()
	var (
		seen *audit
		err  error
	)
	if o.Audited {
		var flags []string
		if seen, flags, err = newAudit(); err == nil {
			o.APIServerFlags = append(slices.Clone(o.APIServerFlags), flags...)
		}
	}
	if err == nil {
		err = c.start(ctx, o)
	}
	if err == nil && o.Setup != nil {
		err = o.Setup(ctx)
	}
	if c.Cluster != nil {
		defer c.Stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the control plane for the tests:", err)
		return 1
	}
	code := m.Run()
	if seen != nil {
		if err := seen.check(); err != nil {
			fmt.Fprintln(os.Stderr, "the requests of the controllers:", err)
			return 1
		}
	}
	return code
}

// New starts a control plane for one test, installs Ephor, and stops it after the test.
func New(t testing.TB, o Options) *Cluster {
	t.Helper()
	c := &Cluster{}
	err := c.start(t.Context(), o)
	if c.Cluster != nil {
		t.Cleanup(c.Stop)
	}
	if err == nil && o.Setup != nil {
		err = o.Setup(t.Context())
	}
	if err != nil {
		t.Fatalf("the control plane for the test: %v", err)
	}
	return c
}

func (c *Cluster) start(ctx context.Context, o Options) (err error) {
	if c.Cluster, err = devcluster.Start(ctx, devcluster.Options{Progress: os.Stderr, APIServerFlags: o.APIServerFlags}); err != nil {
		return err
	}
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return err
	}
	return c.Install(ctx, o.Values)
}

// Install installs Ephor, again if it was removed.
func (c *Cluster) Install(ctx context.Context, values string) (err error) {
	if values == "" {
		values = "dev"
	}
	c.Ephor, err = c.Cluster.Install(ctx, values)
	return err
}

// Try runs kubectl as administrator and returns its output, and the error of kubectl or the API server.
func (c *Cluster) Try(_ testing.TB, stdin string, args ...string) (string, error) {
	// The context of the test has ended when its cleanup runs.
	return c.Kubectl(context.Background(), []byte(stdin), args...)
}

// Must runs kubectl as administrator, which has to succeed, and returns its output.
func (c *Cluster) Must(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	out, err := c.Try(t, stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Apply applies manifests for a test, and deletes them afterwards without waiting for the end of the deletion.
func (c *Cluster) Apply(t testing.TB, manifests string) {
	t.Helper()
	c.Must(t, manifests, "apply", "-f", "-")
	t.Cleanup(func() {
		if _, err := c.Try(t, manifests, "delete", "--ignore-not-found", "--wait=false", "-f", "-"); err != nil {
			t.Error(err)
		}
	})
}
