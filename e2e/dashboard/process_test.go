package dashboard

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// The reports controller serves the dashboard as the chart configures it: over TLS with its own certificate, with the rights of its account,
// on every replica. The summary equals the output of the command line.
func TestProcess(t *testing.T) {
	namespaces(t, "process-a", "process-b")
	apply(t,
		newReport("process-a", "Pod", "one", result("p", "r", "fail", "high", "m"), result("q", "r", "pass", "", "m")),
		newReport("process-b", "Pod", "two", result("p", "r", "warn", "high", "m"), result("q", "r", "skip", "", "m")),
		newReport("", "Node", "process-node", result("q", "r", "error", "low", "m")))
	admin := account(t, "process-a", "process-all", "*", "")
	some := account(t, "process-a", "process-some", "process-a")
	for i := range 2 {
		r := cluster.Start(t, devcluster.Reports)
		client := trusting(t)
		ask := func(path, token string) (int, string) {
			return askTLS(t, client, "https://"+r.DashboardAddr+path, token)
		}
		suite.Eventually(t, func() error {
			want := command(t)
			status, got := ask("/api/v1/report", admin)
			if status != http.StatusOK || !same(t, got, want) {
				return fmt.Errorf("replica %d: %d %s, want %s", i, status, got, want)
			}
			return nil
		})
		if status, got := ask("/api/v1/report", some); status != http.StatusOK || !strings.Contains(got, "process-a") || strings.Contains(got, "process-b") {
			t.Errorf("who may list one namespace: %d %s", status, got)
		}
		for path, want := range map[string]int{"/api/v1/report": 401, "/api/v1/state": 401, "/": 200} {
			if status, _ := ask(path, ""); status != want {
				t.Errorf("without a token %s: %d", path, status)
			}
		}
		if log := r.Tail(100000); strings.Contains(log, admin) || strings.Contains(log, some) {
			t.Error("the log holds a token")
		}
	}
}

// Without an address the dashboard listens on loopback only, answers every local client, and rejects other host names.
func TestProcessOnLoopback(t *testing.T) {
	r := cluster.Start(t, devcluster.Reports, "--dashboardAddress=", "--dashboardCASecretName=", "--dashboardTLSSecretName=")
	url := "http://" + r.DashboardAddr
	ready(t, url, "", func(int) bool { return true })
	request, err := http.NewRequest(http.MethodGet, url+"/api/v1/state", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "attacker.example"
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("another name: %s", resp.Status)
	}
}

// trusting returns a client that trusts the controller's CA, for the name of its Service.
func trusting(t *testing.T) *http.Client {
	t.Helper()
	const name = "kyverno-reports-controller-dashboard"
	roots := x509.NewCertPool()
	suite.Eventually(t, func() error {
		secret, err := cluster.Client.CoreV1().Secrets(suite.Namespace).Get(t.Context(), name+".kyverno-tls-ca", metav1.GetOptions{})
		if err == nil && !roots.AppendCertsFromPEM(secret.Data["tls.crt"]) {
			err = fmt.Errorf("no certificate in %v", secret.Data)
		}
		return err
	})
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name + "." + suite.Namespace + ".svc"}}}
}

func askTLS(t *testing.T, client *http.Client, url, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, err.Error() // the certificate may not exist yet
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// evaluateTLS evaluates policies and decodes the report. It waits until the controller is ready.
func evaluateTLS(t *testing.T, client *http.Client, url, token string, body, report any) {
	t.Helper()
	suite.Eventually(t, func() error {
		r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(manifestOf(t, body)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s %s %v", resp.Status, text, err)
		}
		return json.Unmarshal(text, report)
	})
}

// command returns the output of `ephor report -o json` for an administrator.
func command(t *testing.T) string {
	t.Helper()
	root, err := devcluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(root, "bin", "ephor"), "report", "--kubeconfig", cluster.Kubeconfig, "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func same(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}

// manifestOf returns data as JSON.
func manifestOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
