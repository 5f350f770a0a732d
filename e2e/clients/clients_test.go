package clients

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"
	"os"
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

// Row S25 of docs/security/threat-model.md: with --client-ca-file Ephor answers the API server only. The configuration of the API server is
// the one in docs/security/hardening.md.
func TestS25APIServerWithCertificate(t *testing.T) {
	flags, ca, err := devcluster.WebhookClient(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*devcluster.Patience())
	defer cancel()
	cluster, err := devcluster.Start(ctx, devcluster.Options{Progress: os.Stdout, APIServerFlags: flags})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Stop)
	ephor, err := cluster.InstallEphor(ctx)
	if err != nil {
		t.Fatal(err)
	}
	replica, err := ephor.StartAdmission(ctx, "--client-ca-file="+ca, "--client-names="+devcluster.ClientName)
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
	res, err := client.Get("https://" + replica.Addr + "/health/readiness")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("a probe: %v, %v", res, err)
	}
}
