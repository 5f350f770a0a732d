package webhooks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/webhookconf"
)

// One control plane serves all tests of the package, in the order of their files: the last one deletes the namespace.
var (
	cluster suite.Cluster
	api     client.Client
)

const namespace = suite.Namespace

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, suite.Options{Audited: true, Setup: func(context.Context) (err error) {
		scheme := runtime.NewScheme()
		if err = errors.Join(admissionv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme)); err != nil {
			return err
		}
		api, err = client.New(cluster.Config, client.Options{Scheme: scheme})
		return err
	}}))
}

// start starts an admission controller for a test, and stops it afterwards.
func start(t *testing.T, args ...string) *devcluster.Replica {
	t.Helper()
	// A short Lease, so that the next replica does not wait long for that of a killed replica.
	return cluster.Start(t, devcluster.Admission, append(args, "--leaderElectionRetryPeriod=300ms")...)
}

// create sends a dry-run creation of an object.
func create(t *testing.T, manifest string, flags ...string) error {
	t.Helper()
	_, err := cluster.Kubectl(t.Context(), []byte(manifest), append([]string{"create", "--dry-run=server", "-f", "-"}, flags...)...)
	return err
}

// answers waits until the answer to a creation contains the text, or, if the text is empty, until the creation is admitted.
func answers(t *testing.T, manifest, text string, flags ...string) {
	t.Helper()
	suite.Eventually(t, func() error {
		err := create(t, manifest, flags...)
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

func configMap(namespace, name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: " + namespace + "}\n"
}

// validating returns the validating configuration for resources.
func validating(t *testing.T) (*admissionv1.ValidatingWebhookConfiguration, error) {
	c := &admissionv1.ValidatingWebhookConfiguration{}
	return c, api.Get(t.Context(), client.ObjectKey{Name: webhookconf.ResourceValidating}, c)
}

// stored returns the names of all configurations with our label.
func stored(t *testing.T) (names []string) {
	t.Helper()
	ours := client.MatchingLabels{webhookconf.ManagedLabel: webhookconf.ManagedValue}
	var v admissionv1.ValidatingWebhookConfigurationList
	var m admissionv1.MutatingWebhookConfigurationList
	if err := errors.Join(api.List(t.Context(), &v, ours), api.List(t.Context(), &m, ours)); err != nil {
		t.Fatal(err)
	}
	for _, c := range v.Items {
		names = append(names, c.Name)
	}
	for _, c := range m.Items {
		names = append(names, c.Name)
	}
	return names
}

// refusing returns a ClusterPolicy that denies the objects that it matches.
func refusing(name, kinds, more, webhook string) string {
	return fmt.Sprintf(`
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: %s}
spec:
  background: false
%s
  rules:
  - name: refused
    match: {any: [{resources: {kinds: [%s]%s}}]}
    validate: {failureAction: Enforce, message: "the policy %s says no", deny: {}}
`, name, webhook, kinds, more, name)
}

// ready waits until the webhooks cover the policy.
func ready(t *testing.T, kind, name string, flags ...string) {
	t.Helper()
	cluster.Must(t, "", append([]string{"wait", "--for=condition=Ready", kind, name}, flags...)...)
}

func owner() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kyverno:webhook", Labels: map[string]string{webhookconf.OwnerLabel: webhookconf.OwnerValue}}}
}
