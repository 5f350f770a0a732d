package trust

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/cli"
	"ephor.invalid/ephor/internal/devcluster"
)

// withoutBody posts a header that announces a body, sends none, and returns the status.
func withoutBody(t testing.TB, service, path string) int {
	t.Helper()
	address := cluster.Must(t, "", "get", "service", service, "-n", suite.Namespace, "-o", "jsonpath={.spec.clusterIP}:{.spec.ports[0].port}")
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: devcluster.Patience()}, "tcp", address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // TLS verification is not tested here
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(15 * time.Second)); err != nil { // less than a server waits for a body
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("%s: no answer before the body: %v", path, err)
		return 0
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// TestT1CleanupServer: the cleanup controller's webhooks answer the API server only. A review at a plain path, with an unknown segment, or
// with the segment of another path, gets 404 before its body is read.
func TestT1CleanupServer(t *testing.T) {
	cluster.Start(t, devcluster.Cleanup)
	t1Start(t)
	const invalid = "apiVersion: kyverno.io/v2\nkind: CleanupPolicy\nmetadata: {name: t1, namespace: victim}\n" +
		"spec: {schedule: often, match: {any: [{resources: {kinds: [ConfigMap]}}]}}\n"
	asked := func() { // the API server's own call
		t.Helper()
		suite.Until(t, "the review refuses a policy", func() error {
			_, err := cluster.Try(t, invalid, "create", "--dry-run=server", "-f", "-")
			if err == nil || !strings.Contains(err.Error(), "schedule") || strings.Contains(err.Error(), "failed calling") {
				return fmt.Errorf("the API server gives %w", err)
			}
			return nil
		})
	}
	asked()
	var service, own string
	for _, line := range strings.Split(cluster.Must(t, "", "get", "validatingwebhookconfigurations", "kyverno-cleanup-validating-webhook-cfg", "kyverno-ttl-validating-webhook-cfg",
		"-o", `jsonpath={range .items[*].webhooks[*].clientConfig.service}{.name} {.path}{"\n"}{end}`), "\n") {
		name, path, _ := strings.Cut(line, " ")
		if strings.HasSuffix(path, "/validate") {
			service, own = name, strings.TrimSuffix(path, "/validate")
		}
	}
	if service == "" || service == "kyverno-svc" || len(own) != 65 {
		t.Fatalf("the cleanup webhook asks the Service %q at the segment %q", service, own)
	}
	admission := strings.TrimSuffix(secretPath(t, "/validate/fail"), "/validate/fail")
	none := "/" + strings.Repeat("0", 64)
	for _, path := range []string{"/validate", none + "/validate", own[:64] + "/validate", own + "/verifyttl", own + "/validate/fail", admission + "/validate", "/verifyttl", "/"} {
		if status := withoutBody(t, service, path); status != http.StatusNotFound {
			t.Errorf("a forged review at %s of the cleanup server gets %d, not 404", path, status)
		}
		if status := port(t, service, path, t1Forged); status != http.StatusNotFound {
			t.Errorf("a forged review with a body at %s of the cleanup server gets %d, not 404", path, status)
		}
	}
	if status := port(t, service, own+"/validate", t1Forged); status == http.StatusNotFound {
		t.Errorf("the path of the webhook gets %d", status)
	}
	for _, path := range []string{"/validate/fail", none + "/validate/fail", own + "/validate/fail"} {
		if status := withoutBody(t, "kyverno-svc", path); status != http.StatusNotFound {
			t.Errorf("a forged review at %s of the admission server gets %d, not 404", path, status)
		}
	}
	asked()
}

// TestT1DeletedSecret: after the Secret with the key is deleted, Ephor creates a new key and rewrites the configurations. It answers the
// previous paths during the overlap, so that no request fails.
func TestT1DeletedSecret(t *testing.T) {
	cluster.Apply(t, suite.RequireTeam)
	suite.Until(t, "the policy is enforced", func() error { return cluster.Enforced(t.Context()) })
	finish := cluster.Load(t, 2)
	old, all := secretPath(t, "/validate/fail"), standing(t, "kyverno-svc")
	key := func() string {
		return cluster.Must(t, "", "get", "secret", "ephor-webhook-routes", "-n", suite.Namespace, "--ignore-not-found", "-o", "jsonpath={.data}")
	}
	before := key()
	cluster.Must(t, "", "delete", "secret", "ephor-webhook-routes", "-n", suite.Namespace)
	if status := port(t, "kyverno-svc", old, t1Forged); status != http.StatusOK {
		t.Errorf("just after the deletion the path in the configurations gets %d", status)
	}
	suite.Until(t, "the configurations carry segments of a new key", func() error {
		if now := key(); now == "" || now == before {
			return fmt.Errorf("the key is the one of before, or there is none")
		}
		for _, path := range standing(t, "kyverno-svc") {
			if slices.Contains(all, path) || len(path) < 66 {
				return fmt.Errorf("the path %s stands", path)
			}
		}
		return nil
	})
	suite.Until(t, "the old path ends", func() error {
		if status := port(t, "kyverno-svc", old, t1Forged); status != http.StatusNotFound {
			return fmt.Errorf("the old path is answered: %d", status)
		}
		return nil
	})
	if status := port(t, "kyverno-svc", secretPath(t, "/validate/fail"), t1Forged); status != http.StatusOK {
		t.Errorf("the new path gets %d", status)
	}
	if load := finish(); load.Failed > 0 {
		t.Errorf("%d of %d requests were not decided as the policy says", load.Failed, load.Asked)
	}
}

// unlock runs the command ephor unlock.
func unlock(t testing.TB, args ...string) {
	t.Helper()
	root := cli.NewRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	if code := cli.Main(append([]string{"ephor", "unlock", "--kubeconfig", cluster.Kubeconfig}, args...), root); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out.String())
	}
}

// TestT1UnlockedRotation: epochs continue while the cluster is unlocked, so that previous paths expire. `unlock --restore` writes
// configurations with the current paths.
func TestT1UnlockedRotation(t *testing.T) {
	cluster.Apply(t, suite.RequireTeam)
	suite.Until(t, "the policy is enforced", func() error { return cluster.Enforced(t.Context()) })
	old := secretPath(t, "/validate/fail")
	unlock(t, "--for", "1h")
	if paths := standing(t); len(paths) > 0 {
		t.Errorf("unlocked, %q stand", paths)
	}
	cluster.Must(t, "", "annotate", "secret", "ephor-webhook-routes", "-n", suite.Namespace, "--overwrite", "ephor.dev/rotate=now")
	suite.Until(t, "the path of before ends", func() error {
		if status := port(t, "kyverno-svc", old, t1Forged); status != http.StatusNotFound {
			return fmt.Errorf("the path of before is answered: %d", status)
		}
		return nil
	})
	unlock(t, "--restore")
	restored := secretPath(t, "/validate/fail")
	if restored == "" || restored == old {
		t.Errorf("the path that was put back is %q, the ended one %q", restored, old)
	}
	if status := port(t, "kyverno-svc", restored, t1Forged); status != http.StatusOK {
		t.Errorf("the path that was put back gets %d", status)
	}
	if err := cluster.Enforced(t.Context()); err != nil {
		t.Errorf("just after the restoration: %v", err)
	}
	suite.Until(t, "the policy is enforced", func() error { return cluster.Enforced(t.Context()) })
}
