package cel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// One control plane and one admission controller serve all tests of the package. A test removes its policies.
var (
	cluster   suite.Cluster
	admission *devcluster.Replica

	kubectl, must, eventually = cluster.Try, cluster.Must, suite.Eventually
)

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, suite.Options{Values: "standard", Audited: true, Setup: func(ctx context.Context) error {
		if _, err := cluster.Kubectl(ctx, nil, "create", "namespace", exempting); err != nil {
			return err
		}
		return startAdmission(ctx)
	}}))
}

// startAdmission starts the admission controller that the tests share.
func startAdmission(ctx context.Context) (err error) {
	admission, err = cluster.Ephor.StartAdmission(ctx, exceptionFlag)
	return err
}

// apply creates a policy, waits until its webhook is configured, and deletes it after the test.
func apply(t *testing.T, resource, name, manifest string, flags ...string) {
	t.Helper()
	cluster.Apply(t, manifest)
	eventually(t, func() error {
		out, err := kubectl(t, "", append([]string{"get", resource, name, "-o", "jsonpath={.status.conditionStatus.conditions[?(@.type==\"WebhookConfigured\")].status}"}, flags...)...)
		if err == nil && out != "True" {
			err = fmt.Errorf("WebhookConfigured is %q", out)
		}
		return err
	})
}

var errNotDenied = errors.New("it was not denied")

// denied waits until a dry-run creation is denied with the text; without a text, until it is admitted.
func denied(t *testing.T, manifest, text string) {
	t.Helper()
	eventually(t, func() error {
		_, err := kubectl(t, manifest, "create", "--dry-run=server", "-f", "-")
		switch {
		case text == "":
			return err
		case err == nil:
			return errors.New("it was admitted")
		case !strings.Contains(err.Error(), text):
			return fmt.Errorf("%q is not in %w", text, err)
		}
		return nil
	})
}
