package decisions

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/devcluster"
)

// planted contains secret values of a test. Each has characters that JSON escapes.
type planted struct {
	names  []string
	values map[string]string
	quoted map[string]bool // by messages of policies
}

// value returns a new secret value.
func (p *planted) value(t *testing.T, name string, quoted bool) string {
	t.Helper()
	random := make([]byte, 12)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	if p.values == nil {
		p.values, p.quoted = map[string]string{}, map[string]bool{}
	}
	p.names = append(p.names, name)
	p.values[name], p.quoted[name] = `<"`+hex.EncodeToString(random)+`\>`, quoted
	return p.values[name]
}

// core returns the part of a value that is the same in every encoding except base64.
func core(value string) string { return value[2 : len(value)-2] }

// in returns the names of the values that a text contains, in any encoding.
func (p *planted) in(text []byte, quotedToo bool) (found []string) {
	for _, name := range p.names {
		if p.quoted[name] && !quotedToo {
			continue
		}
		value := p.values[name]
		forms := []string{core(value), hex.EncodeToString([]byte(core(value)))}
		for shift := range 3 { // base64 of a text that contains the value at some offset
			encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + core(value)))
			forms = append(forms, strings.TrimRight(encoded, "=")[4:len(encoded)-4])
		}
		for _, f := range forms {
			if bytes.Contains(text, []byte(f)) {
				found = append(found, name)
				break
			}
		}
	}
	return found
}

// capture stores messages.
type capture struct {
	mu   sync.Mutex
	list [][]byte
}

func (c *capture) add(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, b)
}

func (c *capture) messages() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.list)
}

// raw passes messages on unchanged.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error { *v.(*[]byte) = bytes.Clone(data); return nil }
func (raw) Name() string                       { return "proto" }

// traces is a collector that stores the bytes that it receives.
func traces(t *testing.T) (c *capture, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c = &capture{}
	server := grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		var got, answer []byte
		if err := s.RecvMsg(&got); err != nil {
			return err
		}
		c.add(got)
		return s.SendMsg(&answer)
	}))
	go func() { _ = server.Serve(l) }() // it ends with the test
	t.Cleanup(server.Stop)
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return c, port
}

// pair returns the certificate of a Secret of the installation.
func pair(t *testing.T, name string) (c tls.Certificate, ca []byte) {
	t.Helper()
	suite.Eventually(t, func() error {
		s, err := cluster.Client.CoreV1().Secrets(suite.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err == nil {
			c, err = tls.X509KeyPair(s.Data["tls.crt"], s.Data["tls.key"])
			ca = s.Data["tls.crt"]
		}
		return err
	})
	return c, ca
}

// between is a server between the admission controller and the store. It has the keys of both, and stores the messages.
func between(t *testing.T, store int, ca string) (c *capture, port string) {
	t.Helper()
	c = &capture{}
	own, _ := pair(t, "decisions.kyverno-tls-pair")
	_, authority := pair(t, ca)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	to, err := url.Parse(fmt.Sprintf("https://localhost:%d", store))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = &http.Transport{DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		sender, err := senderPair(ctx)
		if err != nil {
			return nil, err
		}
		return (&tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "localhost", Certificates: []tls.Certificate{sender}, MinVersion: tls.VersionTLS13}}).DialContext(ctx, network, address)
	}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		c.add(text)
		r.Body = io.NopCloser(bytes.NewReader(text))
		proxy.ServeHTTP(w, r)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS13}
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, err = net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return c, port
}

const senderSecret = "decisions-sender.kyverno-tls-pair"

func senderPair(ctx context.Context) (tls.Certificate, error) {
	s, err := cluster.Client.CoreV1().Secrets(suite.Namespace).Get(ctx, senderSecret, metav1.GetOptions{})
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(s.Data["tls.crt"], s.Data["tls.key"])
}

// secretPolicies audit, change and deny objects with secrets. Those that deny quote the secrets.
const secretPolicies = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: planted-audit}
spec:
  rules:
  - name: team
    match: {any: [{resources: {kinds: [Secret, Pod, ConfigMap], namespaces: [planted]}}]}
    validate: {failureAction: Audit, message: a team is needed, pattern: {metadata: {labels: {team: "?*"}}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: planted-mutate}
spec:
  rules:
  - name: stamp
    match: {any: [{resources: {kinds: [Secret, Pod], namespaces: [planted]}}]}
    mutate: {patchStrategicMerge: {metadata: {labels: {stamped: by-policy}}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: planted-quote}
spec:
  rules:
  - name: secrets
    match: {any: [{resources: {kinds: [Secret], namespaces: [planted], names: ["refused*"]}}]}
    validate:
      failureAction: Enforce
      message: "not {{ request.object.data.password }}, which is {{ base64_decode(request.object.data.password) }}"
      deny: {}
  - name: environment
    match: {any: [{resources: {kinds: [Pod], namespaces: [planted], names: ["refused*"]}}]}
    validate:
      failureAction: Enforce
      message: "not {{ request.object.spec.containers[0].env[0].value }} and {{ request.object.metadata.annotations.\"example.com/token\" }}"
      deny: {}
`

// plant sends requests for objects with secrets: creations, changes and deletions, admitted and denied.
func plant(t *testing.T, p *planted) {
	t.Helper()
	b64 := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	object := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	secret := func(name string, quoted bool) string {
		return object(map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "namespace": "planted"},
			"data":       map[string]any{"password": b64(p.value(t, name+": data", quoted))},
			"stringData": map[string]any{"token": p.value(t, name+": stringData", false)},
		})
	}
	pod := func(name string, quoted bool) string {
		return object(map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": name, "namespace": "planted", "annotations": map[string]any{"example.com/token": p.value(t, name+": annotation", quoted)}},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "nginx", "env": []any{
				map[string]any{"name": "PASSWORD", "value": p.value(t, name+": env", quoted)},
			}}}},
		})
	}
	// kubectl apply stores a copy of the object in an annotation.
	cluster.Must(t, secret("kept", false), "apply", "-f", "-")
	cluster.Must(t, secret("kept", false), "apply", "-f", "-")
	cluster.Must(t, "", "delete", "secret", "kept", "-n", "planted")
	suite.Eventually(t, func() error {
		_, err := cluster.Try(t, pod("kept", false), "apply", "-f", "-") // a controller creates the namespace's service account
		return err
	})
	cluster.Must(t, "", "delete", "pod", "kept", "-n", "planted", "--force", "--grace-period=0")
	for _, refused := range []string{secret("refused", true), pod("refused", true)} {
		suite.Eventually(t, func() error {
			_, err := cluster.Try(t, refused, "apply", "-f", "-")
			if err == nil || !strings.Contains(err.Error(), "planted-quote") {
				return fmt.Errorf("the object is not refused by planted-quote: %v", err)
			}
			return nil
		})
	}
}

// recordPlanted starts an admission controller that records decisions, sends requests for objects with secrets, and stops it. It returns its
// log.
func recordPlanted(t *testing.T, p *planted, flags ...string) (log []byte) {
	t.Helper()
	admission := cluster.Start(t, devcluster.Admission, append(flags,
		"--decisionsShare=1", "--decisionsRequests", "--redact=/**/env/*/value", "--redact=/metadata/annotations/example.com~1token", "--v=6")...)
	suite.Eventually(t, func() error { // the namespace of the previous test may still be terminating
		ns, err := cluster.Client.CoreV1().Namespaces().Get(t.Context(), "planted", metav1.GetOptions{})
		if err == nil && ns.DeletionTimestamp != nil {
			return errors.New("the namespace planted is being deleted")
		}
		return nil
	})
	cluster.Apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: planted}\n---"+secretPolicies)
	cluster.Must(t, "", "wait", "--for=condition=Ready", "clusterpolicies", "planted-audit", "planted-mutate", "planted-quote")
	plant(t, p)
	cluster.Must(t, "", "delete", "clusterpolicies", "planted-audit", "planted-mutate", "planted-quote")
	suite.Stop(t, admission) // pending records are written
	log, err := os.ReadFile(admission.Log)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// searched fails the test if a text contains one of the values. With quotedToo this includes values that messages of policies quote.
func (p *planted) searched(t *testing.T, what string, text []byte, quotedToo bool) {
	t.Helper()
	if len(text) == 0 {
		t.Errorf("%s: there is nothing to search", what)
	}
	if found := p.in(text, quotedToo); len(found) > 0 {
		t.Errorf("%s has the values of %s", what, strings.Join(found, ", "))
	}
}

// Nothing that leaves the admission controller contains a byte of a secret value: messages to the store, the store and a copy of it, files,
// exports, logs, traces. Messages of policies may quote values in the API server's answer and in events, so reports and events are searched
// for the other values only.
func TestPlantedSecrets(t *testing.T) {
	dir := t.TempDir()
	port, err := devcluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	const ca = "decisions.kyverno-tls-ca"
	database := filepath.Join(dir, "decisions.db")
	keeper := cluster.Start(t, devcluster.Reports, "--decisionsStore=sqlite:"+database, fmt.Sprintf("--decisionsStorePort=%d", port), "--decisionsStoreService=localhost",
		"--decisionsStoreCASecretName="+ca, "--decisionsStoreTLSSecretName=decisions.kyverno-tls-pair")
	wire, wirePort := between(t, port, ca)
	collected, tracePort := traces(t)
	lines := filepath.Join(dir, "decisions.jsonl")
	var p planted
	var logs []byte
	for _, to := range [][]string{
		{"--decisions=https://localhost:" + wirePort, "--decisionsCASecretName=" + ca, "--decisionsTLSSecretName=" + senderSecret},
		{"--decisions=" + lines},
	} {
		logs = append(logs, recordPlanted(t, &p, append(to, "--enableTracing", "--tracingAddress=127.0.0.1", "--tracingPort="+tracePort)...)...)
	}

	// Every object has a record, which proves that the search covers it.
	recorded := count(t, lines)
	if recorded["Secret"] < 4 || recorded["Pod"] < 2 || recorded["refused"] < 2 {
		t.Errorf("recorded in the file: %v", recorded)
	}
	if stored := count(t, "sqlite:"+database); stored["Secret"] < 4 || stored["Pod"] < 2 || stored["refused"] < 2 {
		t.Errorf("recorded in the store: %v", stored)
	}

	searched := func(what string, text []byte, quotedToo bool) {
		t.Helper()
		p.searched(t, what, text, quotedToo)
	}
	searched("the wire to the store", bytes.Join(wire.messages(), nil), true)
	var sent []byte
	for _, body := range wire.messages() {
		_, batch, err := decision.ParseBatch(body, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		for i := range batch {
			text, err := batch[i].Review()
			if err != nil {
				t.Error(err)
			}
			sent = append(sent, text...)
		}
	}
	searched("the requests on the wire", sent, true)
	searched("the log of the admission controllers", logs, true)
	keeperLog, err := os.ReadFile(keeper.Log)
	if err != nil {
		t.Fatal(err)
	}
	searched("the log of the reports controller", keeperLog, true)
	searched("the traces", bytes.Join(collected.messages(), nil), true)
	file, err := os.ReadFile(lines)
	if err != nil {
		t.Fatal(err)
	}
	searched("the file of lines", file, true)
	searched("the texts of the requests", inflated(t, lines), true)

	// A copy of the store is a backup.
	suite.Stop(t, keeper)
	var backup []byte
	for _, suffix := range []string{"", "-wal"} {
		text, err := os.ReadFile(database + suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		backup = append(backup, text...)
	}
	searched("the store", backup, true)

	// The output of the commands that read the store.
	policies := filepath.Join(dir, "policies.yaml")
	if err := os.WriteFile(policies, []byte(secretPolicies), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, args := range map[string][]string{
		"decisions of the file": {"decisions", "-f", lines, "-o", "json"}, "decisions as CSV": {"decisions", "-f", lines, "-o", "csv"}, "decisions of the store": {"decisions", "-f", "sqlite:" + database, "-o", "json"},
		"impact": {"impact", policies, "--decisions", lines, "-o", "json", "--examples", "100"}, "impact as a table": {"impact", policies, "--decisions", lines, "--examples", "100"},
		"export": {"decisions", "export", policies, "-f", lines, "--as-test", filepath.Join(dir, "recorded")},
	} {
		out, err := output(args...)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		searched(what, out, true)
	}
	exported, err := os.ReadFile(filepath.Join(dir, "recorded", "requests.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	searched("the exported test", exported, true)
	if !bytes.Contains(exported, []byte(decision.Redacted)) {
		t.Error("nothing is replaced in the exported test: the test proves nothing")
	}
	searched("reports and events", []byte(cluster.Must(t, "", "get", "policyreports,ephemeralreports.reports.kyverno.io,events", "-A", "-o", "json")), false)
}

// count returns the number of records of the namespace by kind, and of denials.
func count(t *testing.T, from string) map[string]int {
	t.Helper()
	out, err := output("decisions", "-f", from, "--namespace", "planted", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	if err := decision.Read(bytes.NewReader(out), func(r *decision.Record) bool {
		n[r.Kind]++
		n[string(r.Verdict)]++
		return true
	}, func(line int, err error) { t.Errorf("%s:%d: %v", from, line, err) }); err != nil {
		t.Fatal(err)
	}
	return n
}

// inflated returns the texts of all recorded requests of a file.
func inflated(t *testing.T, path string) (out []byte) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = decision.Read(f, func(r *decision.Record) bool {
		if r.Request == nil {
			return true
		}
		text, err := r.Review()
		if err != nil {
			t.Error(err)
		}
		out = append(out, text...)
		return true
	}, func(line int, err error) { t.Errorf("%s:%d: %v", path, line, err) })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// output runs a command, and returns the output on both streams.
func output(args ...string) ([]byte, error) {
	root, err := devcluster.Root()
	if err != nil {
		return nil, err
	}
	out, err := exec.Command(filepath.Join(root, "bin", "ephor"), args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return out, err
}
