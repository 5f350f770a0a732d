package availability

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

const (
	cleanupCA   = "kyverno-cleanup-controller.kyverno.svc.kyverno-tls-ca"
	cleanupPair = "kyverno-cleanup-controller.kyverno.svc.kyverno-tls-pair"
)

// healthy requests the health of a server, and trusts only the CA in the Secret.
func healthy(t *testing.T, addr, ca, name string) error {
	t.Helper()
	s := secret(t, ca)
	if s == nil {
		return fmt.Errorf("there is no Secret %s", ca)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.Data["tls.crt"])
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name}, DisableKeepAlives: true}
	for _, path := range []string{"/health/liveness", "/health/readiness"} {
		resp, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Get("https://" + addr + path)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, resp.Status)
		}
	}
	return nil
}

func holder(t *testing.T, lease, want string) {
	t.Helper()
	suite.Until(t, want+" holds the lease "+lease, func() error {
		l, err := cluster.Client.CoordinationV1().Leases(namespace).Get(t.Context(), lease, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != want {
			return fmt.Errorf("%v", l.Spec.HolderIdentity)
		}
		return nil
	})
}

// withoutCleanup deletes the webhook configurations of a cleanup controller that was killed.
func withoutCleanup() {
	_, _ = cluster.Kubectl(context.Background(), nil, "delete", "--ignore-not-found", "validatingwebhookconfiguration",
		"kyverno-cleanup-validating-webhook-cfg", "kyverno-ttl-validating-webhook-cfg")
}

// The cleanup controller has its own Lease, certificates and server.
func TestCleanupController(t *testing.T) {
	r, err := cluster.Ephor.Start(t.Context(), devcluster.Cleanup)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { suite.Stop(t, r); withoutCleanup() })
	holder(t, "kyverno-cleanup-controller", r.Name)
	if err := healthy(t, r.Addr, cleanupCA, "kyverno-cleanup-controller.kyverno.svc"); err != nil {
		t.Error(err)
	}
	for name, common := range map[string]string{cleanupCA: "*.kyverno.svc", cleanupPair: "kyverno-cleanup-controller"} {
		if p := read(t, name); p.Newest().Subject.CommonName != common {
			t.Errorf("%s: %s", name, p.Newest().Subject)
		}
	}
	deleteSecrets(t, cleanupCA, cleanupPair)
	// The server uses the new certificate once the webhook configurations trust its CA, and the old one until then.
	suite.Until(t, "the Secrets are back and served", func() error {
		if secret(t, cleanupPair) == nil {
			return fmt.Errorf("there is no Secret %s", cleanupPair)
		}
		return healthy(t, r.Addr, cleanupCA, "kyverno-cleanup-controller.kyverno.svc")
	})
}

// `controller all` runs all four controllers in one process: two servers, four Leases, one port for metrics.
func TestControllerAll(t *testing.T) {
	root, err := devcluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	// One account has the rights of all four, as in the chart with singleProcess.enabled.
	for _, name := range []string{"background", "cleanup", "reports"} {
		binding := "all-in-one-" + name
		cluster.Must(t, "", "create", "clusterrolebinding", binding, "--clusterrole=kyverno:"+name+"-controller", "--serviceaccount="+namespace+":kyverno-admission-controller")
		t.Cleanup(func() { _, _ = cluster.Kubectl(context.Background(), nil, "delete", "clusterrolebinding", binding) })
	}
	t.Cleanup(withoutCleanup)
	program := filepath.Join(root, "bin", "ephor")
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), namespace, "kyverno-admission-controller")
	if err != nil {
		t.Fatal(err)
	}
	var ports []string
	for range 3 {
		port, err := cluster.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, strconv.Itoa(port))
	}
	args := []string{
		"controller", "all", "--kubeconfig=" + kubeconfig, "--caSecretName=" + caName, "--tlsSecretName=" + pairName,
		"--cleanupCASecretName=" + cleanupCA, "--cleanupTLSSecretName=" + cleanupPair, "--servicePort=8443", "--webhookServerHost=127.0.0.1", "--webhookServerPort=" + ports[0],
		"--cleanupServerHost=127.0.0.1", "--cleanupServerPort=" + ports[1], "--metricsHost=127.0.0.1", "--metricsPort=" + ports[2],
	}
	out, err := exec.CommandContext(t.Context(), program, append(args, "--deadManSeconds=60")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--deadManSeconds: the process that detects") {
		t.Errorf("the dead-man mode is not refused: %v\n%s", err, out)
	}
	p, err := cluster.Run("all-in-one", []string{"KYVERNO_POD_NAME=all-in-one"}, program, args...)
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range []string{"kyverno", "kyverno-background-controller", "kyverno-cleanup-controller", "kyverno-reports-controller"} {
		holder(t, lease, "all-in-one")
	}
	for addr, of := range map[string][2]string{ports[0]: {caName, "kyverno-svc.kyverno.svc"}, ports[1]: {cleanupCA, "kyverno-cleanup-controller.kyverno.svc"}} {
		suite.Until(t, of[1]+" is served", func() error { return healthy(t, "127.0.0.1:"+addr, of[0], of[1]) })
	}
	metrics := suite.Metrics(t, "127.0.0.1:"+ports[2])
	for _, name := range []string{caName, pairName, cleanupCA, cleanupPair} {
		if !strings.Contains(grep(metrics, "ephor_certificate_expiry_timestamp_seconds{"), `secret="`+name+`"`) {
			t.Errorf("no metric tells when the certificate in %s ends:\n%s", name, grep(metrics, "ephor_cert"))
		}
	}
	if err := p.Stop(suite.Grace()); err != nil {
		t.Errorf("it did not end by itself: %v\n%s", err, p.Tail(10))
	}
}

// grep returns the lines that contain the text.
func grep(lines, text string) string {
	var out []string
	for line := range strings.Lines(lines) {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}
