package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// One control plane and one admission controller serve all tests of the package. A test that creates policies deletes them.
var (
	cluster suite.Cluster
	replica *devcluster.Replica
	root    string

	kubectl, must, eventually = cluster.Try, cluster.Must, suite.Eventually
)

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, suite.Options{Values: "e2e", Audited: true, Setup: func(ctx context.Context) (err error) {
		if root, err = devcluster.Root(); err != nil {
			return err
		}
		replica, err = startReplica(ctx)
		return err
	}}))
}

// startReplica starts another admission controller with the same flags, since the API server may call any of them.
func startReplica(ctx context.Context) (*devcluster.Replica, error) {
	return cluster.Ephor.StartAdmission(ctx)
}

// applyPolicies applies a file or folder of policies, waits until all are Ready, and deletes them after the test.
func applyPolicies(t *testing.T, path string) {
	t.Helper()
	must(t, "", "apply", "-f", path)
	t.Cleanup(func() {
		if _, err := cluster.Kubectl(context.Background(), nil, "delete", "--ignore-not-found", "-f", path); err != nil {
			t.Error(err)
		}
	})
	must(t, "", "wait", "--for=condition=Ready", "clusterpolicies", "--all")
}

// policyFile writes a policy to a temporary file and returns its path.
func policyFile(t *testing.T, policy string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// refused reports whether err is a denial by our webhook, and returns its text.
func refused(err error) (text string, ok bool) {
	if err == nil {
		return "", false
	}
	return err.Error(), strings.Contains(err.Error(), "denied the request")
}

var errAdmitted = errors.New("it was admitted")
