package suite

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"ephor.invalid/ephor/internal/devcluster"
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
	// Own starts a control plane for the package, which changes definitions. A shared one keeps those of the chart.
	Own bool
	// Setup runs once before the tests of a package, with Ephor installed and no controller running; nil for none.
	Setup func(context.Context) error
}

// Cluster is a control plane with Ephor installed. Tests start the controllers.
type Cluster struct {
	*devcluster.Cluster
	Ephor  *devcluster.Ephor
	Client *kubernetes.Clientset // as administrator
}

// Main starts the control plane that the tests of a package share, or borrows one, runs them, and returns the exit code. The tests have to
// remove the objects that they create; the chart's, and those of Setup, are removed here.
func (c *Cluster) Main(m *testing.M, o Options) int {
	code := 1
	err := c.main(context.Background(), o, func() { code = m.Run() })
	if c.Cluster != nil {
		c.Stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the control plane of the tests:", err)
		return 1
	}
	return code
}

func (c *Cluster) main(ctx context.Context, o Options, run func()) (err error) {
	if len(o.APIServerFlags) == 0 && !o.Own {
		if c.Cluster, err = devcluster.Borrow(ctx); err != nil {
			return err
		}
	}
	var seen *audit
	if o.Audited {
		if seen, err = newAudit(); err != nil {
			return err
		}
		if c.Cluster == nil {
			flags, err := seen.flags()
			if err != nil {
				return err
			}
			o.APIServerFlags = append(slices.Clone(o.APIServerFlags), flags...)
		} else if err := seen.open(c.Plane); err != nil {
			return err
		}
	}
	var empty devcluster.Inventory
	if c.Cluster != nil {
		if empty, err = c.Inventory(ctx); err != nil {
			return err
		}
	}
	if err := c.start(ctx, o); err != nil {
		return err
	}
	if o.Setup != nil {
		if err := o.Setup(ctx); err != nil {
			return err
		}
	}
	before, err := c.Inventory(ctx)
	if err != nil {
		return err
	}
	run()
	if err := c.RemoveWebhooks(ctx, before); err != nil {
		return err
	}
	if err := c.NothingNew(ctx, before, ours); err != nil {
		return fmt.Errorf("tests leave objects behind: %w", err)
	}
	if seen != nil {
		if err := seen.check(); err != nil {
			return fmt.Errorf("the requests of the controllers: %w", err)
		}
	}
	if empty != nil {
		return c.Return(ctx, empty)
	}
	return nil
}

// ours reports whether the controllers create and remove the object by themselves.
func ours(o devcluster.Object) bool {
	switch o.Group {
	case "admissionregistration.k8s.io":
		return strings.Contains(o.Resource, "webhookconfigurations")
	case "wgpolicyk8s.io", "openreports.io", "reports.kyverno.io":
		return true
	}
	return o.Namespace == Namespace
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
	if c.Cluster == nil {
		if c.Cluster, err = devcluster.Start(ctx, devcluster.Options{Progress: os.Stderr, APIServerFlags: o.APIServerFlags, Env: devcluster.RareCollections}); err != nil {
			return err
		}
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

// RootCA waits until a Namespace has the ConfigMap that Kubernetes creates in each.
func (c *Cluster) RootCA(t testing.TB, namespace string) {
	t.Helper()
	Eventually(t, func() error {
		_, err := c.Try(t, "", "get", "configmap", "kube-root-ca.crt", "-n", namespace)
		return err
	})
}

// Namespace creates a Namespace for a test, also while one of this name is being deleted, and deletes it afterwards without waiting.
func (c *Cluster) Namespace(t testing.TB, name string) {
	t.Helper()
	Until(t, "the Namespace "+name+" is created", func() error {
		_, err := c.Try(t, "", "create", "namespace", name)
		return err
	})
	t.Cleanup(func() {
		if _, err := c.Try(t, "", "delete", "namespace", name, "--ignore-not-found", "--wait=false"); err != nil {
			t.Error(err)
		}
	})
}
