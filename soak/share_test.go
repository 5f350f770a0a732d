package soak

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// moves bounds the time until the share of a lost replica moves.
const moves = 30 * time.Second

// settle is how long the replicas need to agree after one joined.
const settle = 20 * time.Second

// Three background controllers share the work. One is killed (kill -9), and its share moves to the others. Then one is suspended between
// reading and writing, and another between writing and the API server, for 40 seconds (SIGSTOP): the share moves, and when the process
// continues, its late writes are refused or never sent.
func TestShares(t *testing.T) {
	p := install(t)
	p.apply(workRole)
	p.start(1)
	gate := &gate{t: t}
	config := p.proxied("kyverno-background-controller", func(proxy *httputil.ReverseProxy) http.Handler { gate.proxy = proxy; return gate })
	stopped := p.Start(t, devcluster.Background, "--kubeconfig="+config, "--genWorkers=100")
	replicas := []*devcluster.Replica{stopped, p.Start(t, devcluster.Background), p.Start(t, devcluster.Background)}
	p.workIn("share")
	time.Sleep(settle)

	p.triggers("kept", 60, "1")
	p.idle()
	fewest := 60
	for _, r := range replicas {
		n := p.generated(r)
		tell(t, "objects made by "+r.Name+", of 120", n)
		fewest = min(fewest, n)
	}
	figure(t, "the smallest of three shares", fewest, "at least 15", fewest >= 15)

	replicas[2].Kill()
	killed := time.Now()
	p.triggers("killed", 30, "1")
	p.allMade("killed", 30, "1")
	moved := time.Since(killed)
	figure(t, "the share of a replica that was killed moved after", moved.Round(100*time.Millisecond), "at most 30 s", moved <= moves)
	time.Sleep(settle)

	p.stopAndGo(stopped, gate)
	for _, r := range replicas[:2] {
		if err := suite.Alive(r); err != nil {
			t.Error(err)
		}
	}
}

// classes of triggers: the state of their work when the process is suspended, and the change of the trigger meanwhile.
var classes = []string{"read-gone", "read-changed", "write-gone", "write-changed"}

const perClass = 8

// stopAndGo suspends a replica while it works on triggers of all classes, and resumes it when the others have done that work.
func (p *installation) stopAndGo(r *devcluster.Replica, g *gate) {
	p.Helper()
	for _, class := range classes {
		if strings.HasSuffix(class, "-changed") {
			p.triggers(class, perClass, "1")
		}
	}
	p.idle()
	g.close()
	for _, class := range classes {
		p.triggers(class, perClass, "2")
	}
	suite.Until(p.T, "work for triggers of all classes is under way", g.full)
	time.Sleep(time.Second) // for requests that are on their way
	if err := r.Signal(syscall.SIGSTOP); err != nil {
		p.Fatal(err)
	}
	begin := time.Now()
	for _, class := range classes {
		if strings.HasSuffix(class, "-changed") {
			p.triggers(class, perClass, "3")
		} else {
			p.remove(class)
		}
	}
	p.allMade("read-changed", perClass, "3")
	p.allMade("write-changed", perClass, "3")
	moved := time.Since(begin)
	figure(p, "the share of a replica that was stopped moved after", moved.Round(100*time.Millisecond), "at most 30 s", moved <= moves)
	time.Sleep(time.Until(begin.Add(40 * time.Second)))
	late := g.open()
	if err := r.Signal(syscall.SIGCONT); err != nil {
		p.Fatal(err)
	}
	settled := p.idle()
	time.Sleep(settle)
	p.idle()
	late.Wait()

	g.mu.Lock()
	defer g.mu.Unlock()
	figure(p, fmt.Sprintf("writes sent after the end of the authority, for %d triggers read before", g.reads), len(g.sent), "0", len(g.sent) == 0 && g.reads > 0)
	for _, s := range g.sent {
		p.Log("sent: " + s)
	}
	accepted := g.answers[http.MethodPut][http.StatusOK]
	updates := 0
	for _, n := range g.answers[http.MethodPut] {
		updates += n
	}
	figure(p, fmt.Sprintf("of %d updates that reached the API server late accepted", updates), accepted, "0", accepted == 0 && updates > 0)
	tell(p, "creations that reached the API server late", encode(g.answers[http.MethodPost]))
	there, err := p.contents("share")
	if err != nil {
		p.Fatal(err)
	}
	orphans, wrong := 0, 0
	for name, data := range there {
		base, what, made := cutMade(name)
		switch {
		case !made:
		case strings.Contains(base, "-gone-"):
			orphans++
			p.Log("left: " + name)
		case strings.Contains(base, "-changed-") && what == "data" && data != `{"v":"3"}`:
			wrong++
			p.Log(name + " is " + data)
		}
	}
	figure(p, "objects for triggers that were deleted meanwhile", orphans, "0", orphans == 0)
	figure(p, "objects with what was read before", wrong, "0", wrong == 0)
	tell(p, "all work was done after", settled.Round(100*time.Millisecond))
}

// triggers creates or changes triggers.
func (p *installation) triggers(class string, n int, v string) {
	p.Helper()
	configMaps := p.Client.CoreV1().ConfigMaps("share")
	for i := range n {
		o := trigger(fmt.Sprintf("%s-%d", class, i), v)
		if _, err := configMaps.Update(context.Background(), o, metav1.UpdateOptions{}); err == nil {
			continue
		}
		if _, err := configMaps.Create(context.Background(), o, metav1.CreateOptions{}); err != nil {
			p.Fatal(err)
		}
	}
}

func (p *installation) remove(class string) {
	p.Helper()
	for i := range perClass {
		if err := p.Client.CoreV1().ConfigMaps("share").Delete(context.Background(), fmt.Sprintf("%s-%d", class, i), metav1.DeleteOptions{}); err != nil {
			p.Fatal(err)
		}
	}
}

// allMade waits until all objects are generated for the triggers of a class.
func (p *installation) allMade(class string, n int, v string) {
	p.Helper()
	suite.Until(p.T, "everything is made for "+class, func() error {
		there, err := p.contents("share")
		if err != nil {
			return err
		}
		for i := range n {
			name := fmt.Sprintf("%s-%d", class, i)
			if got := there[name+"-data"]; got != fmt.Sprintf(`{"v":%q}`, v) {
				return fmt.Errorf("%s-data is %q", name, got)
			}
			if there[name+"-copy"] == "" {
				return fmt.Errorf("%s-copy is missing", name)
			}
		}
		return nil
	})
}

// cutMade splits the name of a generated object into the name of its trigger and the rule.
func cutMade(name string) (base, rule string, made bool) {
	for _, rule := range []string{"data", "copy"} {
		if base, ok := strings.CutSuffix(name, "-"+rule); ok {
			return base, rule, true
		}
	}
	return name, "", false
}

// generated returns the number of objects that a replica generated, according to its log.
func (p *installation) generated(r *devcluster.Replica) int {
	p.Helper()
	text := suite.Metrics(p.T, r.MetricsAddr)
	sum := 0.0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "kyverno_policy_results_total{") && strings.Contains(line, `policy_name="work-share"`) {
			var v float64
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v); err == nil {
				sum += v
			}
		}
	}
	return int(sum)
}

// gate is a proxy between a replica and the API server. While it is closed, it holds reads of triggers in the classes read-*, and writes
// for those in write-*.
type gate struct {
	t     *testing.T
	proxy *httputil.ReverseProxy

	mu     sync.Mutex
	opened chan struct{}   // nil when it is open
	kept   map[string]bool // triggers whose requests are held
	late   sync.WaitGroup
	// reads after the gate was opened.
	reads   int
	answers map[string]map[int]int // answers to held writes, by method and status
	sent    []string               // later writes for triggers whose requests were held
	after   time.Time
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened, g.kept, g.answers = make(chan struct{}), map[string]bool{}, map[string]map[int]int{}
}

// open lets all requests pass. The held ones have arrived when the returned group is done.
func (g *gate) open() *sync.WaitGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opened)
	g.after = time.Now()
	return &g.late
}

// full returns an error until work of all classes is held.
func (g *gate) full() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, class := range classes {
		n := 0
		for name := range g.kept {
			if strings.HasPrefix(name, class) {
				n++
			}
		}
		if n == 0 {
			return fmt.Errorf("no work of the class %s is under way", class)
		}
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	name, write := subject(r, body)
	base, _, made := cutMade(name)
	g.mu.Lock()
	opened := g.opened
	keep := opened != nil && g.after.IsZero() && (!made && !write && strings.HasPrefix(name, "read-") || made && write && strings.HasPrefix(base, "write-"))
	switch {
	case keep:
		g.kept[base] = true
		if !write {
			g.reads++
		}
		g.late.Add(1)
		defer g.late.Done()
	case write && made && !g.after.IsZero() && time.Since(g.after) < 10*time.Second && (g.kept[base]):
		g.sent = append(g.sent, fmt.Sprintf("%s %s %s after it went on", r.Method, name, time.Since(g.after)))
	}
	g.mu.Unlock()
	switch {
	case !keep:
		g.proxy.ServeHTTP(w, r)
	case write:
		// The request is already sent, whatever happens to the process.
		<-opened
		answer := httptest.NewRecorder()
		g.proxy.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
		g.mu.Lock()
		if g.answers[r.Method] == nil {
			g.answers[r.Method] = map[int]int{}
		}
		g.answers[r.Method][answer.Code]++
		g.mu.Unlock()
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	default:
		// The answer dates from the time of the suspension.
		answer := httptest.NewRecorder()
		g.proxy.ServeHTTP(answer, r)
		<-opened
		for k, v := range answer.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}
}

// subject returns the ConfigMap of the namespace that a request reads or writes.
func subject(r *http.Request, body []byte) (name string, write bool) {
	path, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/share/configmaps")
	if !ok {
		return "", false
	}
	write = r.Method != http.MethodGet
	if r.Method == http.MethodPost {
		for _, class := range classes {
			for i := range perClass {
				for _, rule := range []string{"data", "copy"} {
					if n := fmt.Sprintf("%s-%d-%s", class, i, rule); bytes.Contains(body, []byte(n)) {
						return n, write
					}
				}
			}
		}
	}
	return strings.TrimPrefix(path, "/"), write
}

// cleanupRole lets the cleanup controller delete ConfigMaps.
const cleanupRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: soak-cleanup, labels: {rbac.kyverno.io/aggregate-to-cleanup-controller: "true"}}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, delete]}
`

// sharedCleanup runs every minute.
const sharedCleanup = `
apiVersion: kyverno.io/v2
kind: ClusterCleanupPolicy
metadata: {name: old-%[1]d}
spec:
  schedule: "* * * * *"
  match: {any: [{resources: {kinds: [ConfigMap], namespaces: [shared], selector: {matchLabels: {old: "%[1]d"}}}}]}
`

// Two cleanup controllers share the objects whose TTL is over, and the cleanup policies. One is killed (kill -9), and its share moves.
func TestCleanupShares(t *testing.T) {
	const objects, policies = 40, 8
	p := install(t)
	p.apply(cleanupRole)
	p.kubectl("create", "namespace", "shared")
	replicas := []*devcluster.Replica{p.Start(t, devcluster.Cleanup), p.Start(t, devcluster.Cleanup)}
	for _, r := range replicas {
		suite.Says(t, r, "the replicas that share the work", replicas[0].Name, replicas[1].Name)
		suite.Says(t, r, "TTL labels are watched", "configmaps")
	}
	time.Sleep(settle)
	const deleted = "deleted because its TTL is over"
	p.passing("first", objects)
	p.none("shared")
	fewest := objects
	for _, r := range replicas {
		n := suite.Logged(r, deleted)
		tell(t, fmt.Sprintf("objects deleted by %s, of %d", r.Name, objects), n)
		fewest = min(fewest, n)
	}
	figure(t, "the smaller of two shares", fewest, "at least 10", fewest >= 10)
	total := suite.Logged(replicas[0], deleted) + suite.Logged(replicas[1], deleted)
	figure(t, "objects deleted, by what both of them say", total, fmt.Sprint(objects), total == objects)

	replicas[1].Kill()
	killed := time.Now()
	p.passing("second", objects)
	p.none("shared")
	moved := time.Since(killed)
	figure(t, "the objects of a replica that was killed were deleted after", moved.Round(100*time.Millisecond), "at most 30 s", moved <= moves)

	replicas = append(replicas[:1], p.Start(t, devcluster.Cleanup))
	time.Sleep(settle)
	for i := range policies {
		suite.Until(t, "the policy is accepted", func() error {
			_, err := p.Try(t, fmt.Sprintf(sharedCleanup, i), "apply", "-f", "-")
			return err
		})
		for n := range 5 {
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("old-%d-%d", i, n), Labels: map[string]string{"old": fmt.Sprint(i)}}}
			if _, err := p.Client.CoreV1().ConfigMaps("shared").Create(context.Background(), o, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.none("shared")
	fewest = policies
	for _, r := range replicas {
		n := suite.Logged(r, "cleanup policy was executed")
		tell(t, fmt.Sprintf("runs of %d policies by %s", policies, r.Name), n)
		fewest = min(fewest, n)
	}
	figure(t, "the smaller of two shares of policies", fewest, "at least 1", fewest >= 1)
}

// passing creates objects whose TTL is already over.
func (p *installation) passing(name string, n int) {
	p.Helper()
	for i := range n {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{"cleanup.kyverno.io/ttl": "1s"}}}
		if _, err := p.Client.CoreV1().ConfigMaps("shared").Create(context.Background(), o, metav1.CreateOptions{}); err != nil {
			p.Fatal(err)
		}
	}
}

// none waits until a namespace is empty.
func (p *installation) none(ns string) {
	p.Helper()
	suite.Until(p.T, "everything is deleted", func() error {
		there, err := p.contents(ns)
		if err == nil && len(there) > 0 {
			err = fmt.Errorf("%d objects are left", len(there))
		}
		return err
	})
}
