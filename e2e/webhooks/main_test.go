package webhooks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ephor-dev/ephor/internal/devcluster"
	"github.com/ephor-dev/ephor/internal/webhookconf"
)

// One control plane serves all tests of the package, in the order in which they are written: the last one deletes the
// namespace.
var (
	cluster *devcluster.Cluster
	ephor   *devcluster.Ephor
	api     client.Client
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
		scheme := runtime.NewScheme()
		if err = errors.Join(admissionv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme)); err != nil {
			return err
		}
		api, err = client.New(cluster.Config, client.Options{Scheme: scheme})
		return err
	}()
	if cluster != nil {
		defer cluster.Stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/webhooks:", err)
		return 1
	}
	return m.Run()
}

// start starts an admission controller for a test, and stops it afterwards.
func start(t *testing.T, args ...string) *devcluster.Replica {
	t.Helper()
	// A short lease: the next replica need not wait long for the one of a replica that was killed.
	r, err := ephor.StartAdmission(t.Context(), append(args, "--leaderElectionRetryPeriod=300ms")...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-r.Done():
			return
		default:
		}
		if t.Failed() {
			t.Logf("its log ends with:\n%s", r.Tail(30))
		}
		if err := r.Stop(40 * time.Second); err != nil {
			t.Error(err)
		}
	})
	return r
}

// apply applies manifests for a test.
func apply(t *testing.T, manifests string) {
	t.Helper()
	must(t, manifests, "apply", "-f", "-")
	t.Cleanup(func() { remove(t, manifests) })
}

func remove(t *testing.T, manifests string) {
	t.Helper()
	if _, err := cluster.Kubectl(context.Background(), []byte(manifests), "delete", "--ignore-not-found", "--wait=false", "-f", "-"); err != nil {
		t.Error(err)
	}
}

// must runs kubectl, which must succeed.
func must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := cluster.Kubectl(t.Context(), []byte(stdin), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// eventually waits until f returns nil, for at most a minute.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatal("waited in vain: ", err)
}

// create tries to create an object, on the server only.
func create(t *testing.T, manifest string, flags ...string) error {
	t.Helper()
	_, err := cluster.Kubectl(t.Context(), []byte(manifest), append([]string{"create", "--dry-run=server", "-f", "-"}, flags...)...)
	return err
}

// answers waits until the answer to a creation contains the text, or, when it is empty, until it is a success.
func answers(t *testing.T, manifest, text string, flags ...string) {
	t.Helper()
	eventually(t, func() error {
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

// validating reads the resource configuration.
func validating(t *testing.T) (*admissionv1.ValidatingWebhookConfiguration, error) {
	c := &admissionv1.ValidatingWebhookConfiguration{}
	return c, api.Get(t.Context(), client.ObjectKey{Name: webhookconf.ResourceValidating}, c)
}

// stored are all configurations that carry our label.
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

// refusing is a ClusterPolicy that refuses what it matches.
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

// ready waits until the policy is in the webhooks.
func ready(t *testing.T, kind, name string, flags ...string) {
	t.Helper()
	must(t, "", append([]string{"wait", "--for=condition=Ready", "--timeout=60s", kind, name}, flags...)...)
}

// logged waits for a line of the log that holds all the texts.
func logged(t *testing.T, r *devcluster.Replica, texts ...string) {
	t.Helper()
	eventually(t, func() error {
		for line := range strings.Lines(string(r.Tail(400))) {
			found := true
			for _, text := range texts {
				found = found && strings.Contains(line, text)
			}
			if found {
				return nil
			}
		}
		return fmt.Errorf("no line of the log says %q", texts)
	})
}

func owner() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kyverno:webhook", Labels: map[string]string{webhookconf.OwnerLabel: webhookconf.OwnerValue}}}
}
