package clients

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/devcluster"
)

const policy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: require-team}
spec:
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    mutate: {patchStrategicMerge: {metadata: {labels: {+(seen): "yes"}}}}
  - name: required
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate: {failureAction: Enforce, message: team is required, pattern: {metadata: {labels: {team: "?*"}}}}
`

// Rows S25 and T1 of docs/security/threat-model.md: with --client-ca-file and --apiServerTokenUsers Ephor answers the API server only. The
// configuration of the API server is the one in docs/security/hardening.md.
func TestS25APIServerWithCertificate(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("of no user"), 0o600); err != nil { // the API server reads it before there is a webhook
		t.Fatal(err)
	}
	flags, ca, err := devcluster.WebhookClient(dir, token)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*devcluster.Patience())
	defer cancel()
	cluster, err := devcluster.Start(ctx, devcluster.Options{Progress: os.Stdout, APIServerFlags: flags, Env: devcluster.RareCollections})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Stop)
	ephor, err := cluster.InstallEphor(ctx)
	if err != nil {
		t.Fatal(err)
	}
	kubectl := func(stdin string, args ...string) (string, error) {
		return cluster.Kubectl(ctx, []byte(stdin), args...)
	}
	must := func(stdin string, args ...string) string {
		t.Helper()
		out, err := kubectl(stdin, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	must("", "create", "serviceaccount", "webhooks", "-n", "kube-system")
	must("", "create", "clusterrolebinding", "ephor-token-reviews", "--clusterrole=system:auth-delegator", "--serviceaccount=kyverno:kyverno-admission-controller")
	issued := must("", "create", "token", "webhooks", "-n", "kube-system", "--audience=https://kyverno-svc.kyverno.svc:443", "--duration=1h")
	if err := os.WriteFile(token, []byte(strings.TrimSpace(issued)), 0o600); err != nil {
		t.Fatal(err)
	}
	replica, err := ephor.StartAdmission(ctx, "--client-ca-file="+ca, "--client-names="+devcluster.ClientName, "--apiServerTokenUsers=system:serviceaccount:kube-system:webhooks")
	if err != nil {
		t.Fatal(err)
	}
	must(policy, "apply", "-f", "-")
	must("", "wait", "--for=condition=Ready", "clusterpolicies", "--all")

	if _, err := kubectl("", "create", "configmap", "bad"); err == nil || !strings.Contains(err.Error(), "denied the request") || !strings.Contains(err.Error(), "team is required") {
		t.Errorf("the API server's reviews are not answered: %v", err)
	}
	must("{apiVersion: v1, kind: ConfigMap, metadata: {name: good, namespace: default, labels: {team: a}}}", "create", "-f", "-")
	if seen := must("", "get", "configmap", "good", "-o", "jsonpath={.metadata.labels.seen}"); seen != "yes" {
		t.Errorf("the mutating webhook was not asked: %q", seen)
	}

	// The certificate identifies the API server, so the paths are Kyverno's.
	if path := must("", "get", "validatingwebhookconfiguration", "kyverno-resource-validating-webhook-cfg", "-o", "jsonpath={.webhooks[0].clientConfig.service.path}"); path != "/validate/fail" {
		t.Errorf("the path is %s", path)
	}
	// Another client that can reach the port is rejected.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // TLS verification is not tested here
	review := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CREATE","kind":{"version":"v1","kind":"ConfigMap"},"resource":{"version":"v1","resource":"configmaps"}}}`
	for _, path := range []string{"/validate/fail", "/mutate/fail", "/policyvalidate", "/verifymutate"} {
		res, err := client.Post("https://"+replica.Addr+path, "application/json", bytes.NewReader([]byte(review)))
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a certificate: %d", path, res.StatusCode)
		}
		_ = res.Body.Close()
	}
	// The certificate alone is not enough, and neither is the token of another user.
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"))
	if err != nil {
		t.Fatal(err)
	}
	identified := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{certificate}}}} //nolint:gosec // see above
	other := must("", "create", "token", "default", "-n", "default", "--audience=https://kyverno-svc.kyverno.svc:443")
	elsewhere := must("", "create", "token", "webhooks", "-n", "kube-system")
	for _, c := range []struct {
		token string
		want  int
	}{{"", http.StatusUnauthorized}, {other, http.StatusForbidden}, {elsewhere, http.StatusForbidden}, {issued, http.StatusOK}} {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+replica.Addr+"/validate/fail", strings.NewReader(review))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(c.token))
		res, err := identified.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != c.want {
			t.Errorf("token %.10s: %d, want %d", c.token, res.StatusCode, c.want)
		}
		_ = res.Body.Close()
	}
	res, err := client.Get("https://" + replica.Addr + "/health/readiness")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("a probe: %v, %v", res, err)
	}
}
