package clients

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ephor-dev/ephor/internal/devcluster"
)

// credentials writes an authority, and a certificate for the API server's webhooks with its key.
func credentials(t *testing.T, dir string) (ca, cert, key string) {
	t.Helper()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "webhook clients"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	caDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &caKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	clientKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	client := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	clientDER, err := x509.CreateCertificate(rand.Reader, client, authority, &clientKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(clientKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("ca.crt", "CERTIFICATE", caDER), write("client.crt", "CERTIFICATE", clientDER), write("client.key", "PRIVATE KEY", keyDER)
}

const plugins = `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ValidatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %[1]s
- name: MutatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %[1]s
`

const kubeconfig = `
apiVersion: v1
kind: Config
users:
- name: "*"
  user: {client-certificate: %s, client-key: %s}
`

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

// Lesson S25: with --client-ca-file only the API server is answered. The configuration of the API server is the one that
// docs/hardening.md shows.
func TestS25APIServerWithCertificate(t *testing.T) {
	dir := t.TempDir()
	ca, cert, key := credentials(t, dir)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := write("admission.yaml", fmt.Sprintf(plugins, write("webhooks.kubeconfig", fmt.Sprintf(kubeconfig, cert, key))))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cluster, err := devcluster.Start(ctx, devcluster.Options{Progress: os.Stdout, APIServerFlags: []string{"--admission-control-config-file=" + config}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Stop)
	ephor, err := cluster.InstallEphor(ctx)
	if err != nil {
		t.Fatal(err)
	}
	replica, err := ephor.StartAdmission(ctx, "--client-ca-file="+ca, "--client-names=kube-apiserver")
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
	must("", "wait", "--for=condition=Ready", "--timeout=60s", "clusterpolicies", "--all")

	if _, err := kubectl("", "create", "configmap", "bad"); err == nil || !strings.Contains(err.Error(), "denied the request") || !strings.Contains(err.Error(), "team is required") {
		t.Errorf("the API server's reviews are not answered: %v", err)
	}
	must("{apiVersion: v1, kind: ConfigMap, metadata: {name: good, namespace: default, labels: {team: a}}}", "create", "-f", "-")
	if seen := must("", "get", "configmap", "good", "-o", "jsonpath={.metadata.labels.seen}"); seen != "yes" {
		t.Errorf("the mutating webhook was not asked: %q", seen)
	}

	// Anybody else who reaches the port.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // who we are is not the point
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
