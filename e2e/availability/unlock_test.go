package availability

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/cli"
)

// unlock runs the command and returns its output.
func unlock(t *testing.T, args ...string) (string, int) {
	t.Helper()
	root := cli.NewRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	code := cli.Main(append([]string{"ephor", "unlock", "--kubeconfig", cluster.Kubeconfig}, args...), root)
	return out.String(), code
}

// unlockedUntil returns the end of the time that unlock printed.
func unlockedUntil(t *testing.T, out string) time.Time {
	t.Helper()
	_, rest, _ := strings.Cut(out, "unlocked until ")
	text, _, _ := strings.Cut(rest, ": ")
	end, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return end
}

// configurations returns the names of all our webhook configurations.
func configurations(t *testing.T) []string {
	t.Helper()
	return strings.Fields(cluster.Must(t, "", "get", "validatingwebhookconfigurations,mutatingwebhookconfigurations",
		"-l", "webhook.kyverno.io/managed-by=kyverno", "-o", "jsonpath={.items[*].metadata.name}"))
}

// While the cluster is unlocked, nothing is enforced, and running controllers do not change that. After it is locked, everything is as
// before.
func TestUnlock(t *testing.T) {
	replicas := cluster.StartEnforcing(t, 2)
	r := leader(t, "kyverno", replicas)
	before := configurations(t)
	if len(before) < 6 {
		t.Fatalf("%q", before)
	}
	begun := time.Now()
	out, code := unlock(t, "--for", "1h")
	if code != 0 || !strings.Contains(out, "deleted kyverno-resource-validating-webhook-cfg\n") {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	if end := unlockedUntil(t, out); end.Before(begun.Add(time.Hour-time.Second)) || end.After(time.Now().Add(time.Hour)) {
		t.Errorf("begun at %s for an hour:\n%s", begun, out)
	}
	suite.Until(t, "unlocked, a violating object is admitted", func() error { return cluster.CreateConfigMap(t.Context(), "") })
	suite.Says(t, r, "the cluster is unlocked")
	// A changed policy does not make the controllers write configurations.
	suite.Round(t, r, "webhook-controller", func() {
		cluster.Must(t, "", "label", "clusterpolicy", "require-team", fmt.Sprint("touched=", begun.Unix()), "--overwrite")
	})
	if got := configurations(t); len(got) > 0 {
		t.Errorf("%q were made again", got)
	}
	// A second unlock keeps the configurations that the first one saved.
	if out, code := unlock(t, "--for", "2h"); code != 0 || !strings.Contains(out, "there were no webhook configurations") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if out, code := unlock(t, "--restore"); code != 0 || !strings.Contains(out, "locked") {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	suite.Until(t, "the policy is enforced", func() error { return cluster.Enforced(t.Context()) })
	suite.Until(t, "all configurations are back", func() error {
		if got := configurations(t); strings.Join(got, " ") != strings.Join(before, " ") {
			return fmt.Errorf("%q, want %q", got, before)
		}
		return nil
	})
	if secret(t, "ephor-unlocked-webhooks") != nil {
		t.Error("the copy is still there")
	}
	if out, code := unlock(t, "--restore"); code != 0 || !strings.Contains(out, "there is no copy") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	// A ConfigMap that the controllers do not read does not unlock the cluster, and the command reports it.
	t.Cleanup(func() { cluster.Must(t, "", "delete", "configmap", "another", "-n", namespace, "--ignore-not-found") })
	if out, code := unlock(t, "--configmap", "another"); code != 0 || !strings.Contains(out, "Warning: there was no ConfigMap "+namespace+"/another") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if out, code := unlock(t, "--configmap", "another", "--restore"); code != 0 || strings.Contains(out, "Warning") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	suite.Until(t, "the policy is enforced again", func() error { return cluster.Enforced(t.Context()) })
}

// The same steps by hand, as docs/operating/availability.md describes them. A controller may notice the deletion before the note.
func TestUnlockByHand(t *testing.T) {
	r := cluster.StartEnforcing(t, 1)[0]
	before := strings.Join(configurations(t), " ")
	hooks, configMaps := cluster.Client.AdmissionregistrationV1(), cluster.Client.CoreV1().ConfigMaps(namespace)
	note := func(value string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"ephor.dev/unlocked-until":%s}}}`, value)
		if _, err := configMaps.Patch(t.Context(), "kyverno", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ours := metav1.ListOptions{LabelSelector: "webhook.kyverno.io/managed-by=kyverno"}
	for i := range 3 {
		note(fmt.Sprintf("%q", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
		suite.Round(t, r, "webhook-controller", func() {
			if err := hooks.ValidatingWebhookConfigurations().DeleteCollection(t.Context(), metav1.DeleteOptions{}, ours); err != nil {
				t.Fatal(err)
			}
			if err := hooks.MutatingWebhookConfigurations().DeleteCollection(t.Context(), metav1.DeleteOptions{}, ours); err != nil {
				t.Fatal(err)
			}
		})
		if got := configurations(t); len(got) > 0 {
			t.Fatalf("round %d: %q were made again", i, got)
		}
		note("null")
		suite.Until(t, "all configurations are back", func() error {
			if got := strings.Join(configurations(t), " "); got != before {
				return fmt.Errorf("%s, want %s", got, before)
			}
			return nil
		})
	}
	suite.Says(t, r, "the cluster is unlocked")
}

// When the time has passed, the controllers recreate the configurations. An unreadable note is ignored.
func TestUnlockEnds(t *testing.T) {
	r := cluster.StartEnforcing(t, 1)[0]
	out, code := unlock(t, "--for", "8s")
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	end := unlockedUntil(t, out)
	const name = "kyverno-resource-validating-webhook-cfg"
	suite.Until(t, "the configuration is made again", func() error {
		c, err := cluster.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && c.CreationTimestamp.Time.Before(end.Truncate(time.Second)) {
			t.Errorf("it was made at %s, before %s", c.CreationTimestamp, end)
		}
		return err
	})
	suite.Until(t, "the policy is enforced", func() error { return cluster.Enforced(t.Context()) })
	cluster.Must(t, "", "annotate", "configmap", "kyverno", "-n", namespace, "--overwrite", "ephor.dev/unlocked-until=tomorrow")
	suite.Says(t, r, "the cluster is not unlocked", "tomorrow")
	cluster.Must(t, "", "delete", "validatingwebhookconfiguration", name)
	suite.Until(t, "the policy is enforced", func() error { return cluster.Enforced(t.Context()) })
	if out, code := unlock(t, "--restore"); code != 0 || !strings.Contains(out, "already existed") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if out := cluster.Must(t, "", "get", "configmap", "kyverno", "-n", namespace, "-o", "jsonpath={.metadata.annotations}"); strings.Contains(out, "unlocked") {
		t.Errorf("the note is still there: %s", out)
	}
}

// All controllers are gone, and the webhooks fail closed for everything, Ephor's own namespace included. unlock works in this state, and
// --restore restores the configurations without a controller.
func TestUnlockWithoutControllers(t *testing.T) {
	cluster.StartEnforcing(t, 1)[0].Kill()
	hooks := cluster.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	cfg, err := hooks.Get(t.Context(), "kyverno-resource-validating-webhook-cfg", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Ephor's own configurations exclude its namespace; edited ones, and those of other products, may not.
	for i := range cfg.Webhooks {
		w := &cfg.Webhooks[i]
		w.NamespaceSelector, w.MatchConditions = nil, nil
		w.Rules[0].Operations, w.Rules[0].Resources = []admissionv1.OperationType{admissionv1.OperationAll}, []string{"configmaps", "secrets"}
	}
	if _, err := hooks.Update(t.Context(), cfg, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	inOurs := func() error {
		_, err := cluster.Client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	suite.Until(t, "the cluster is locked", func() error {
		if err := inOurs(); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			return fmt.Errorf("a ConfigMap is created: %v", err)
		}
		return nil
	})
	before := configurations(t)
	out, code := unlock(t)
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	if err := inOurs(); err != nil {
		t.Errorf("it is still locked: %v", err)
	}
	if out, code := unlock(t, "--restore"); code != 0 || !strings.Contains(out, "created kyverno-resource-validating-webhook-cfg") {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	if got := configurations(t); strings.Join(got, " ") != strings.Join(before, " ") {
		t.Errorf("%q, want %q", got, before)
	}
	if err := cluster.CreateConfigMap(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("restored without controllers: %v", err)
	}
	// The next replica that starts locks the cluster, with webhooks of its own.
	cluster.StartEnforcing(t, 1)
	suite.Until(t, "the edited webhooks are corrected", func() error {
		cfg, err := hooks.Get(t.Context(), "kyverno-resource-validating-webhook-cfg", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, w := range cfg.Webhooks {
			if slices.Contains(w.Rules[0].Resources, "secrets") {
				return fmt.Errorf("%s is about %s", w.Name, w.Rules[0].Resources)
			}
		}
		return nil
	})
	// Until then the webhooks may deny this request.
	cluster.Must(t, "", "delete", "secret", "ephor-unlocked-webhooks", "-n", namespace, "--ignore-not-found")
}
