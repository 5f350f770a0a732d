package decisions

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

var cluster suite.Cluster

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, suite.Options{Values: "dashboard", Audited: true}))
}

// accounts are two service accounts: one may list the reports of the namespace default, the other those of another namespace.
const accounts = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %[1]s, namespace: %[2]s}
rules:
- {apiGroups: [wgpolicyk8s.io], resources: [policyreports], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[1]s, namespace: %[2]s}
subjects: [{kind: ServiceAccount, namespace: default, name: %[1]s}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}
`

// A denial is sent over the channel with certificates on both sides, survives a restart of the controller, and is shown by `ephor decisions`
// and `ephor why` to users who may list the reports of its namespace.
func TestChannel(t *testing.T) {
	dir := t.TempDir()
	port, err := devcluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	const ca = "decisions.kyverno-tls-ca"
	keep := []string{
		"--decisionsStore=sqlite:" + filepath.Join(dir, "decisions.db"), fmt.Sprintf("--decisionsStorePort=%d", port), "--decisionsStoreService=localhost",
		"--decisionsStoreCASecretName=" + ca, "--decisionsStoreTLSSecretName=decisions.kyverno-tls-pair",
	}
	first := cluster.Start(t, devcluster.Reports, keep...)
	cluster.Start(t, devcluster.Admission, fmt.Sprintf("--decisions=https://localhost:%d", port), "--decisionsCASecretName="+ca,
		"--decisionsTLSSecretName=decisions-sender.kyverno-tls-pair", "--decisionsShare=1", "--decisionsCluster=test")
	cluster.Apply(t, suite.RequireTeam+"---"+fmt.Sprintf(accounts, "reader", "default")+"---"+fmt.Sprintf(accounts, "stranger", "kube-public"))
	suite.Until(t, "the policy is enforced", func() error { return cluster.Enforced(t.Context()) })

	reader, stranger := flags(t, first, dir, "reader"), flags(t, first, dir, "stranger")
	uid := ""
	suite.Until(t, "a refusal is shown", func() error {
		out, err := ephor(append([]string{"decisions", "--verdict", "refused", "--policy", "require-*", "-o", "csv"}, reader...)...)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) < 2 || !strings.Contains(lines[1], "default/ConfigMap/asked-") {
			return errors.New(out)
		}
		uid = lines[1][strings.LastIndex(lines[1], ",")+1:]
		return nil
	})
	if out, err := ephor(append([]string{"why", uid}, reader...)...); err != nil || !strings.Contains(out, "the label team is required") {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := ephor(append([]string{"decisions", "-o", "json"}, stranger...)...); err != nil || out != "" {
		t.Errorf("who may list the reports of another namespace only sees %s, %v", out, err)
	}

	// The store survives the controller, and the admission controller connects to the next one.
	suite.Stop(t, first)
	second := cluster.Start(t, devcluster.Reports, keep...)
	reader = flags(t, second, dir, "reader")
	suite.Until(t, "the store of the first controller is shown", func() error {
		_, err := ephor(append([]string{"why", uid}, reader...)...)
		return err
	})
	// Dry runs are recorded like other requests.
	before := refusals(reader)
	if err := cluster.Enforced(t.Context()); err != nil {
		t.Fatal(err)
	}
	suite.Until(t, "a refusal after the restart is shown", func() error {
		if n := refusals(reader); n <= before {
			return fmt.Errorf("%d refusals, %d before", n, before)
		}
		return nil
	})
}

// refusals returns the number of denials that the command shows.
func refusals(flags []string) int {
	out, err := ephor(append([]string{"decisions", "--verdict", "refused", "-o", "json"}, flags...)...)
	if err != nil {
		return 0
	}
	return strings.Count(out, `"verdict":"refused"`)
}

// flags returns the flags that query the dashboard of a replica with the token of an account.
func flags(t *testing.T, r *devcluster.Replica, dir, account string) []string {
	t.Helper()
	const dashboard = "kyverno-reports-controller-dashboard"
	token, authority := filepath.Join(dir, account), filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(token, []byte(cluster.Must(t, "", "create", "token", account, "-n", "default")), 0o600); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, func() error {
		secret, err := cluster.Client.CoreV1().Secrets(suite.Namespace).Get(t.Context(), dashboard+".kyverno-tls-ca", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return os.WriteFile(authority, secret.Data["tls.crt"], 0o600)
	})
	return []string{"--server", "https://" + r.DashboardAddr, "--token-file", token, "--certificate-authority", authority, "--tls-server-name", dashboard + "." + suite.Namespace + ".svc"}
}

// ephor runs a command, and returns its output.
func ephor(args ...string) (string, error) {
	root, err := devcluster.Root()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(root, "bin", "ephor"), args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return string(out), err
}
