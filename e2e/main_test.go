package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ephor-dev/ephor/internal/devcluster"
)

// One control plane and one Ephor serve all tests of the package; a test that changes policies removes them again.
var (
	cluster *devcluster.Cluster
	ephor   *devcluster.Ephor
	replica *devcluster.Replica
	root    string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	err := func() (err error) {
		if root, err = devcluster.Root(); err != nil {
			return err
		}
		if cluster, err = devcluster.Start(ctx, devcluster.Options{Progress: os.Stdout}); err != nil {
			return err
		}
		if ephor, err = cluster.Install(ctx, "e2e"); err != nil {
			return err
		}
		replica, err = startReplica(ctx)
		return err
	}()
	if cluster != nil {
		defer cluster.Stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	return m.Run()
}

// startReplica starts one more admission controller. All have the same flags, since the API server asks any of them.
func startReplica(ctx context.Context) (*devcluster.Replica, error) {
	return ephor.StartAdmission(ctx)
}

// kubectl runs kubectl as administrator and returns what it printed; err holds what the API server refused.
func kubectl(t testing.TB, stdin string, args ...string) (string, error) {
	t.Helper()
	return cluster.Kubectl(t.Context(), []byte(stdin), args...)
}

// must fails the test when kubectl failed.
func must(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	out, err := kubectl(t, stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
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
	must(t, "", "wait", "--for=condition=Ready", "--timeout=60s", "clusterpolicies", "--all")
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

// eventually waits until f returns nil, for at most half a minute.
func eventually(t testing.TB, f func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatal("waited in vain: ", err)
}

// refused reports whether err is a refusal by our webhook, and its text.
func refused(err error) (text string, ok bool) {
	if err == nil {
		return "", false
	}
	return err.Error(), strings.Contains(err.Error(), "denied the request")
}

var errAdmitted = errors.New("it was admitted")
