package versions

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/devcluster"
)

// The versions of the upgrade, and a policy with a function that only the newer one has.
const (
	older, newer = "1.36", "1.37"

	includes = `{apiVersion: policies.kyverno.io/v1, kind: ValidatingPolicy, metadata: {name: versions-includes}, spec: {
	  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]},
	  validations: [{expression: "['a', 'b'].includes(object.metadata.name)", message: another name}]}}`
	refusal = "exist since Kubernetes 1.37; the API server has 1.36"
)

// While API servers of two versions answer, all replicas evaluate as with the older one, whichever they ask: an expression of the newer one is
// refused with its version. After the upgrade of the older one it is accepted, without a restart. This takes more than ten minutes, the time for
// which an answer of the older one counts.
func TestUpgrade(t *testing.T) {
	if !whole() {
		t.Skip("it needs control planes of two versions, and more than ten minutes: make matrix")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	c, err := devcluster.Start(ctx, devcluster.Options{Version: older, Env: devcluster.RareCollections})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	ephor, err := c.Install(ctx, "standard")
	if err != nil {
		t.Fatal(err)
	}
	_, second, err := c.Beside(ctx, newer)
	if err != nil {
		t.Fatal(err)
	}
	old, err := ephor.StartAdmission(ctx)
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.Kubectl(ctx, nil, "create", "token", "kyverno-admission-controller", "-n", "kyverno", "--duration=24h")
	if err != nil {
		t.Fatal(err)
	}
	first := c.Config.Host
	c.Config.Host = second // for the kubeconfig of the other replica
	kubeconfig, err := c.WriteKubeconfig("second", strings.TrimSpace(token))
	c.Config.Host = first
	if err != nil {
		t.Fatal(err)
	}
	other, err := ephor.StartAdmission(ctx, "--kubeconfig="+kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	create := func() error {
		_, err := c.Kubectl(ctx, []byte(includes), "create", "--dry-run=server", "-f", "-")
		return err
	}
	lease := func() string {
		out, err := c.Kubectl(ctx, nil, "get", "lease", "-n", "kyverno", "ephor-api-servers", "-o", "jsonpath={.metadata.annotations}")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	until(t, 3*time.Minute, func() error {
		if got := lease(); !strings.Contains(got, older) || !strings.Contains(got, newer) {
			return errors.New(got)
		}
		return nil
	})
	// Both replicas answer reviews, one after the other.
	until(t, 3*time.Minute, func() error {
		for range 8 {
			if err := create(); err == nil || !strings.Contains(err.Error(), refusal) {
				return fmt.Errorf("not refused: %w", err)
			}
		}
		return nil
	})
	root, err := devcluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"lint", "apply"} {
		args := []string{command, "-", "--kubernetes-version=" + older}
		if command == "apply" {
			args = append(args, "--resource", filepath.Join(root, "examples", "library", "limit-replicas", "good.yaml"))
		}
		run := exec.CommandContext(ctx, filepath.Join(root, "bin", "ephor"), args...)
		run.Stdin = strings.NewReader(includes)
		if out, err := run.CombinedOutput(); err == nil || !strings.Contains(string(out), "exist since Kubernetes 1.37") {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	began := time.Now()
	if err := c.Upgrade(ctx, newer); err != nil {
		t.Fatal(err)
	}
	until(t, 14*time.Minute, func() error {
		for range 8 {
			if err := create(); err != nil {
				return err
			}
		}
		return nil
	})
	t.Logf("accepted %s after the upgrade", time.Since(began).Round(time.Second))
	for _, r := range []*devcluster.Replica{old, other} {
		if err := r.Ready(); err != nil { // the same process as before
			t.Error(err)
		}
	}
}

// until asks until f succeeds.
func until(t *testing.T, patience time.Duration, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(5 * time.Second):
		}
	}
}
