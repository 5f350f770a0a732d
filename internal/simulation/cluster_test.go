package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/charts"
	"ephor.invalid/ephor/internal/app"
	"ephor.invalid/ephor/internal/simulation/apiserver"
)

// installed are the objects of the chart without the schemas of its definitions.
var installed = sync.OnceValue(func() (out []map[string]any) {
	text, err := charts.YAML("dev")
	if err != nil {
		panic(err)
	}
	for _, doc := range strings.Split(string(text), "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			panic(err)
		}
		if o["kind"] == nil {
			continue
		}
		if o["kind"] == "CustomResourceDefinition" {
			versions, _ := o["spec"].(map[string]any)["versions"].([]any)
			for _, v := range versions {
				delete(v.(map[string]any), "schema")
				delete(v.(map[string]any), "additionalPrinterColumns")
			}
		}
		out = append(out, o)
	}
	return out
})

// cluster is an API server with replicas of Ephor's controllers.
type cluster struct {
	t       *testing.T
	server  *apiserver.Server
	network *network
	log     *recorder
	ctx     context.Context
	user    *http.Client

	// skews are how far the clocks of Pods are ahead.
	skews map[string]time.Duration

	mu       sync.Mutex
	replicas []*replica
	wrong    []string
}

// replica is one process of a controller. It is started again after it ended, as the kubelet does.
type replica struct {
	*cluster
	process string
	pod     string

	mu     sync.Mutex
	starts int
	client *apiserver.Client
	kill   context.CancelFunc // ends the process of now
	gone   bool               // it is not started again
	ports  []*listener        // of the process of now
	ended  chan struct{}
}

const namespace = "kyverno"

// processes are the controllers: their service accounts, Services and flags.
var processes = map[string]struct {
	account, service string
	args             []string
}{
	"admission": {"kyverno-admission-controller", charts.AdmissionService, []string{
		"--caSecretName=" + charts.AdmissionCASecret, "--tlsSecretName=" + charts.AdmissionTLSSecret, "--tlsKeyAlgorithm=ECDSA",
		"--reportsServiceAccountName=system:serviceaccount:kyverno:kyverno-reports-controller", "--backgroundServiceAccountName=system:serviceaccount:kyverno:kyverno-background-controller",
	}},
	"background": {"kyverno-background-controller", "", []string{"--healthPort=0"}},
	"reports":    {"kyverno-reports-controller", "", []string{"--healthPort=0"}},
	"cleanup": {"kyverno-cleanup-controller", charts.CleanupService, []string{
		"--caSecretName=cleanup-ca", "--tlsSecretName=cleanup-tls", "--tlsKeyAlgorithm=ECDSA",
	}},
}

func newCluster(t *testing.T, ctx context.Context, random *rand.Rand, o apiserver.Options) *cluster {
	c := &cluster{t: t, ctx: ctx, network: &network{random: random, listeners: map[string][]*listener{}}, log: &recorder{}}
	o.Dial = c.network.dial
	// Metrics of Pods can be read and listed, and not watched.
	o.Resources = append(apiserver.Builtin(), apiserver.Resource{Group: "metrics.k8s.io", Versions: []string{"v1beta1"}, Kind: "PodMetrics", Plural: "pods", Namespaced: true, Verbs: []string{"get", "list"}})
	c.server = apiserver.New(o)
	c.user = &http.Client{Transport: c.server.Client("user", "admin")}
	for _, kind := range []string{"Namespace", "CustomResourceDefinition", ""} {
		for _, o := range installed() {
			if k := o["kind"]; k == kind || kind == "" && k != "Namespace" && k != "CustomResourceDefinition" {
				c.must(c.create(runtime.DeepCopyJSON(o)))
			}
		}
	}
	return c
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// start starts replicas of a controller.
func (c *cluster) start(process string, n int) {
	for i := range n {
		r := &replica{cluster: c, process: process, pod: fmt.Sprint(process, "-", i), ended: make(chan struct{})}
		c.mu.Lock()
		c.replicas = append(c.replicas, r)
		c.mu.Unlock()
		ready := make(chan struct{})
		go r.run(ready)
		<-ready
	}
}

// run runs the process, again and again, until the replica is gone.
func (r *replica) run(ready chan struct{}) {
	defer close(r.ended)
	for pause := time.Second; ; pause = min(2*pause, 10*time.Second) {
		ctx, kill := context.WithCancel(r.ctx)
		r.mu.Lock()
		r.starts++
		p := processes[r.process]
		r.client = r.server.Client(fmt.Sprintf("%s#%d", r.pod, r.starts), "system:serviceaccount:"+namespace+":"+p.account)
		r.client.Skew(r.skews[r.pod])
		r.kill = kill
		gone, client := r.gone, r.client
		r.mu.Unlock()
		if ready != nil {
			close(ready)
			ready = nil
		}
		if !gone && ctx.Err() == nil {
			err := r.once(ctx, client, p.service, p.args)
			if err != nil && ctx.Err() == nil {
				r.log.line("%s ended: %v", client.Name, err)
			}
		}
		kill()
		r.mu.Lock()
		gone = r.gone
		r.mu.Unlock()
		if gone || r.ctx.Err() != nil {
			return
		}
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (r *replica) once(ctx context.Context, client *apiserver.Client, service string, args []string) error {
	environment := map[string]string{"KYVERNO_NAMESPACE": namespace, "KYVERNO_POD_NAME": r.pod, "KYVERNO_ROLE_NAME": "kyverno:" + r.process + "-controller"}
	if service != "" {
		environment["KYVERNO_SVC"] = service
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, l := range r.ports {
			_ = l.Close()
		}
		r.ports = nil
	}()
	return app.RunOn(ctx, app.Host{
		Config: client.Config(), Log: slog.New(r.log.handler(client.Name)),
		Lookup: func(name string) (string, bool) { v, ok := environment[name]; return v, ok },
		Listen: func(string, string) (net.Listener, error) {
			l := r.network.listen(service)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ports = append(r.ports, l)
			return l, nil
		},
	}, r.process, append([]string{"--disableMetrics"}, args...)...)
}

// crash ends the process without any further request or answer.
func (r *replica) crash() {
	r.mu.Lock()
	client, kill, ports := r.client, r.kill, r.ports
	r.mu.Unlock()
	client.Crash()
	for _, l := range ports {
		l.crash()
	}
	kill()
}

// stop ends the process in order.
func (r *replica) stop() {
	r.mu.Lock()
	kill := r.kill
	r.mu.Unlock()
	kill()
}

// close ends all replicas, and waits for them.
func (c *cluster) close() {
	c.mu.Lock()
	all := slices.Clone(c.replicas)
	c.mu.Unlock()
	for _, r := range all {
		r.mu.Lock()
		r.gone = true
		client, kill := r.client, r.kill
		r.mu.Unlock()
		client.Release()
		client.Join()
		kill()
	}
	for _, r := range all {
		<-r.ended
	}
	c.server.Close()
}

func pathOf(o map[string]any) (collection, name string) {
	gv, err := schema.ParseGroupVersion(fmt.Sprint(o["apiVersion"]))
	if err != nil {
		panic(err)
	}
	kind := fmt.Sprint(o["kind"])
	plural := strings.ToLower(kind) + "s"
	if strings.HasSuffix(kind, "y") {
		plural = strings.TrimSuffix(strings.ToLower(kind), "y") + "ies"
	}
	meta, _ := o["metadata"].(map[string]any)
	path := "/apis/" + gv.String()
	if gv.Group == "" {
		path = "/api/" + gv.Version
	}
	if ns, _ := meta["namespace"].(string); ns != "" {
		path += "/namespaces/" + ns
	}
	name, _ = meta["name"].(string)
	return path + "/" + plural, name
}

// request sends a request of the user.
func (c *cluster) request(method, path, contentType string, body any) (map[string]any, error) {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(c.ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://apiserver.invalid"+path, reader)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", contentType)
	response, err := c.user.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	_ = json.Unmarshal(text, &out)
	if response.StatusCode >= 300 {
		return nil, answer{response.StatusCode, fmt.Sprintf("%s %s: %d %s", method, path, response.StatusCode, text)}
	}
	return out, nil
}

// answer is a request that failed.
type answer struct {
	code int
	text string
}

func (a answer) Error() string { return a.text }

func codeOf(err error) int {
	var a answer
	if errors.As(err, &a) {
		return a.code
	}
	return 0
}

func (c *cluster) create(o map[string]any) error {
	path, _ := pathOf(o)
	_, err := c.request(http.MethodPost, path, "application/json", o)
	return err
}

// apply creates an object, or merges it into the present one.
func (c *cluster) apply(o map[string]any) error {
	path, name := pathOf(o)
	_, err := c.request(http.MethodPatch, path+"/"+name, "application/merge-patch+json", o)
	if codeOf(err) == http.StatusNotFound {
		return c.create(o)
	}
	return err
}

func (c *cluster) remove(o map[string]any) error {
	path, name := pathOf(o)
	_, err := c.request(http.MethodDelete, path+"/"+name, "application/json", nil)
	if codeOf(err) == http.StatusNotFound {
		return nil
	}
	return err
}

// objects decodes YAML documents.
func objects(text string) (out []map[string]any) {
	for _, doc := range strings.Split(text, "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			panic(err)
		}
		if len(o) > 0 {
			out = append(out, o)
		}
	}
	return out
}

// recorder keeps the last lines of the logs.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

const mostLines = 20_000

func (r *recorder) line(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) < mostLines {
		r.lines = append(r.lines, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

func (r *recorder) handler(name string) slog.Handler { return logs{r, name, nil} }

type logs struct {
	*recorder
	name  string
	attrs []slog.Attr
}

func (l logs) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l logs) WithGroup(string) slog.Handler                    { return l }
func (l logs) WithAttrs(a []slog.Attr) slog.Handler {
	l.attrs = append(slices.Clone(l.attrs), a...)
	return l
}
func (l logs) Handle(_ context.Context, r slog.Record) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s %s", l.name, r.Level, r.Message)
	add := func(a slog.Attr) bool { fmt.Fprintf(&text, " %s=%v", a.Key, a.Value); return true }
	for _, a := range l.attrs {
		add(a)
	}
	r.Attrs(add)
	l.line("%s", text.String())
	return nil
}
