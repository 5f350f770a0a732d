package trust

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

const t20Policy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: t20}
spec:
  background: false
  rules:
  - name: commands
    match: {any: [{resources: {kinds: [Pod/exec], namespaces: [mallory]}}]}
    validate: {failureAction: Enforce, message: "t20 says no", deny: {}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: t20-masters}
spec:
  background: false
  rules:
  - name: masters
    match: {any: [{resources: {kinds: [Namespace]}, subjects: [{kind: Group, name: "system:masters"}]}]}
    generate: {apiVersion: v1, kind: ConfigMap, name: t20, namespace: "{{ request.object.metadata.name }}", data: {data: {for: "{{ request.userInfo.username }}"}}}
`

// halfClosed sends a command for a Pod as mallory, closes the sending side after held was called, and returns the answer.
func halfClosed(t testing.TB, held func()) string {
	t.Helper()
	server, err := url.Parse(cluster.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(cluster.Config.CertData, cluster.Config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cluster.Config.CAData)
	conn, err := tls.Dial("tcp", server.Host, &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(devcluster.Patience())); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /api/v1/namespaces/mallory/pods/t20/exec?command=ls&stdout=true HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"+
		"X-Stream-Protocol-Version: v4.channel.k8s.io\r\nImpersonate-User: mallory\r\n\r\n")
	held()
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// T20: mallory half-closes the connection of a command while its review runs. The API server shows the path of the webhook, and Ephor notices
// and replaces the path. A forged review that arrives meanwhile, in the name of an administrator, carries out nothing.
func TestT20HalfClosedConnect(t *testing.T) {
	cluster.Try(t, "", "create", "serviceaccount", "default", "-n", mallory) // no controller creates it here
	cluster.Apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: t20, namespace: mallory}
spec: {automountServiceAccountToken: false, nodeName: none, containers: [{name: c, image: registry.example/c}]}
`)
	cluster.Start(t, devcluster.Background)
	t1Start(t)
	cluster.Apply(t, t20Policy)
	cluster.Must(t, "", "wait", "--for=condition=Ready", "clusterpolicy/t20", "clusterpolicy/t20-masters")
	suite.Until(t, "commands are reviewed", func() error {
		if _, err := cluster.Try(t, "", "exec", "t20", "-n", mallory, "--as="+mallory, "--", "ls"); err == nil || !regexp.MustCompile("t20 says no").MatchString(err.Error()) {
			return fmt.Errorf("the command: %w", err)
		}
		return nil
	})
	shows := regexp.MustCompile(`https://[^/]*(/[^?"]*/validate/fail)\?`)
	if err := admission.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	answer := halfClosed(t, func() { time.Sleep(time.Second) })
	if err := admission.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	shown := shows.FindStringSubmatch(answer)
	if shown == nil {
		t.Fatalf("no path is shown: %s", answer)
	}
	// The forged review names an existing Namespace and a requester with all rights. The path is still answered.
	forged := strings.NewReplacer("11111111-2222-3333-4444-555555555555", uidOf(t, "namespace", "victim"), `["system:authenticated"]`, `["system:masters"]`).Replace(t1Forged)
	if status := port(t, "kyverno-svc", shown[1], forged); status != http.StatusOK {
		t.Errorf("the forged review gets %d", status)
	}
	workDone(t, "t1-generate")
	workDone(t, "t20-masters")
	if made := cluster.Must(t, "", "get", "rolebinding,configmap", "-n", "victim", "-o", `jsonpath={.items[?(@.metadata.labels.app\.kubernetes\.io/managed-by=="kyverno")].metadata.name}`); made != "" {
		t.Errorf("work comes of the forged review: %s", made)
	}
	suite.Until(t, "the shown path is of no use", func() error {
		if status := port(t, "kyverno-svc", shown[1], t1Forged); status != http.StatusNotFound {
			return fmt.Errorf("the path that mallory was shown is answered: %d", status)
		}
		return nil
	})
	// A creation that the API server sends is carried out.
	cluster.Namespace(t, "t20-new")
	generated(t, "configmap", "t20", "-n", "t20-new")
}
