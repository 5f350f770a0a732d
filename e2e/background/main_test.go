package background

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// One control plane with one admission controller serves all tests of the package.
var cluster suite.Cluster

// rights are the rights that the policies of the tests need, except for ConfigMaps.
const rights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: background-tests, labels: {rbac.kyverno.io/aggregate-to-background-controller: "true"}}
rules:
- {apiGroups: [""], resources: [secrets, namespaces], verbs: [get, list, create, update, delete]}
- {apiGroups: [""], resources: [pods, pods/status, pods/resize], verbs: [get, list, update]}
- {apiGroups: [apps], resources: [deployments, deployments/scale], verbs: [get, list, update]}
- {apiGroups: [networking.k8s.io], resources: [networkpolicies], verbs: [get, list, create, update, delete]}
- {apiGroups: [""], resources: [nodes, nodes/status], verbs: [get, list, update]}
`

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, suite.Options{Values: "standard", Audited: true, Setup: func(ctx context.Context) error {
		if _, err := cluster.Kubectl(ctx, []byte(rights), "apply", "-f", "-"); err != nil {
			return err
		}
		_, err := cluster.Ephor.StartAdmission(ctx)
		return err
	}}))
}

// start runs a background controller until the end of the test.
func start(t *testing.T, args ...string) *devcluster.Replica {
	t.Helper()
	t.Cleanup(func() {
		if _, err := cluster.Try(t, "", "delete", "updaterequests", "-n", suite.Namespace, "--all"); err != nil {
			t.Error(err)
		}
	})
	return cluster.Start(t, devcluster.Background, args...)
}

// apply applies policies, waits until all are Ready, and deletes them at the end of the test.
func apply(t *testing.T, policies string) {
	t.Helper()
	suite.Eventually(t, func() error { // granted rights take effect after a moment
		_, err := cluster.Try(t, policies, "apply", "-f", "-")
		return err
	})
	t.Cleanup(func() {
		if _, err := cluster.Try(t, policies, "delete", "--ignore-not-found", "--wait=false", "-f", "-"); err != nil {
			t.Error(err)
		}
	})
	ready(t)
}

func ready(t *testing.T) {
	t.Helper()
	for _, kind := range []string{"clusterpolicies", "policies"} {
		if cluster.Must(t, "", "get", kind, "-A", "-o", "name") != "" {
			cluster.Must(t, "", "wait", "--for=condition=Ready", kind, "-A", "--all")
		}
	}
}

// namespaces creates namespaces, and deletes them at the end of the test.
func namespaces(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		cluster.Namespace(t, name)
	}
}

// configMap returns an object that serves as trigger or source.
func configMap(namespace, name string, labels, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Data: data}
}

func create(t *testing.T, o *corev1.ConfigMap) *corev1.ConfigMap {
	t.Helper()
	made, err := cluster.Client.CoreV1().ConfigMaps(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// change updates a ConfigMap, and retries after a conflict.
func change(t *testing.T, namespace, name string, f func(*corev1.ConfigMap)) {
	t.Helper()
	suite.Eventually(t, func() error {
		o, err := cluster.Client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		f(o)
		_, err = cluster.Client.CoreV1().ConfigMaps(namespace).Update(t.Context(), o, metav1.UpdateOptions{})
		return err
	})
}

func remove(t *testing.T, namespace, name string) {
	t.Helper()
	if err := cluster.Client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// gone is the state of an object that does not exist.
const gone = "(gone)"

// state returns one value of a ConfigMap.
func state(t *testing.T, namespace, name, key string) string {
	t.Helper()
	o, err := cluster.Client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return gone
	case err != nil:
		t.Fatal(err)
	case o.DeletionTimestamp != nil:
		return gone
	}
	return o.Data[key]
}

// has waits until a value of a ConfigMap is the expected one.
func has(t *testing.T, namespace, name, key, want string) {
	t.Helper()
	suite.Eventually(t, func() error {
		if got := state(t, namespace, name, key); got != want {
			return fmt.Errorf("%s/%s: %s is %q, want %q", namespace, name, key, got, want)
		}
		return nil
	})
}

// requests returns the existing UpdateRequests.
func requests(t *testing.T) []kyvernov2.UpdateRequest {
	t.Helper()
	var list kyvernov2.UpdateRequestList
	if err := json.Unmarshal([]byte(cluster.Must(t, "", "get", "updaterequests", "-n", suite.Namespace, "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// failing waits until the work of a policy has failed for the reason, and returns it.
func failing(t *testing.T, policy, reason string) kyvernov2.UpdateRequest {
	t.Helper()
	var found kyvernov2.UpdateRequest
	suite.Until(t, "the work of "+policy+" fails", func() error {
		all := requests(t)
		for _, found = range all {
			if found.Spec.Policy == policy && strings.Contains(found.Status.Message, reason) {
				return nil
			}
		}
		return fmt.Errorf("none of %d UpdateRequests says %q", len(all), reason)
	})
	return found
}

// drained waits until all work is done.
func drained(t *testing.T) {
	t.Helper()
	suite.Until(t, "no UpdateRequest is left", func() error {
		for _, u := range requests(t) {
			return fmt.Errorf("%s of %s: %s %s", u.Name, u.Spec.Policy, u.Status.State, u.Status.Message)
		}
		return nil
	})
}

// settled waits until the background controller has dealt with the deletion of policies. It may still check once more for their objects.
func settled(t *testing.T, policies ...string) {
	t.Helper()
	suite.Until(t, "the record of generate rules has no rule of the policies", func() error {
		text, err := cluster.Try(t, "", "get", "configmap", "ephor-generate-rules", "-n", suite.Namespace, "-o", "jsonpath={.data.rules}")
		if err != nil {
			return err
		}
		var rules []struct {
			Policy string `json:"policy"`
			Again  int64  `json:"again"`
		}
		if err := json.Unmarshal([]byte(text), &rules); err != nil {
			return err
		}
		for _, r := range rules {
			if r.Again == 0 && slices.Contains(policies, r.Policy) {
				return fmt.Errorf("it has %s", r.Policy)
			}
		}
		return nil
	})
}

// awaitEvent waits for an event.
func awaitEvent(t *testing.T, reason, note string) {
	t.Helper()
	suite.Until(t, "an event says "+note, func() error {
		text := cluster.Must(t, "", "get", "events.events.k8s.io", "-A", "-o", `jsonpath={range .items[?(@.reason=="`+reason+`")]}{.reportingController} {.note}{"\n"}{end}`)
		if !strings.Contains(text, note) {
			return fmt.Errorf("there are only\n%s", text)
		}
		return nil
	})
}
