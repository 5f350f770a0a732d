package robustness

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world/fixed"
)

// The maximum cost of a bomb. Measured times are compared with a margin, since continuous integration shares its processors
// and is up to twice as slow. Each request pays the time, and each change of a policy the time to compile it, which grows with its
// expressions: 1,000 at most. Allocations do not depend on the machine.
const (
	maxTime       = 20 * time.Millisecond
	maxTimeDecode = 100 * time.Millisecond // if 5 MB of JSON must be read first
	maxCompile    = 50 * time.Millisecond
	timeMargin    = 8
	maxAllocated  = 64 << 20
	child         = "EPHOR_BOMBS"
)

// bomb is one hostile policy and object.
type bomb struct {
	name string
	// policy is the spec of a ClusterPolicy, or only the rules' content; see compileBomb.
	policy func() string
	object func() string // JSON; nil for a small Pod
	// want is the status of the only result, and a part of its message. compiles is false if the compiler rejects it.
	status  string
	message string
	work    string // a part of the reason why the work of the rule could not be planned
	decode  bool   // reading 5 MB is part of it
}

// cost is the measured cost.
type cost struct {
	Name      string
	Status    string
	Message   string
	Work      string
	Compile   time.Duration // to decode and compile the policy
	Time      time.Duration // to decode the object and to evaluate it
	Allocated uint64
}

// TestS22Bombs (S22 in docs/security/threat-model.md) runs all bombs in a child process and compares each result and its cost
// with the table.
func TestS22Bombs(t *testing.T) {
	if os.Getenv(child) != "" {
		t.Skip("this is the child")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestBombChild$", "-test.v")
	cmd.Env = append(os.Environ(), child+"=1", "GOMEMLIMIT=256MiB")
	out, err := cmd.CombinedOutput()
	costs := map[string]cost{}
	for _, line := range strings.Split(string(out), "\n") {
		if text, ok := strings.CutPrefix(line, "COST "); ok {
			var c cost
			if err := json.Unmarshal([]byte(text), &c); err != nil {
				t.Fatal(err)
			}
			costs[c.Name] = c
		}
	}
	if err != nil {
		t.Errorf("the process with the bombs ended with %v; the end of what it said:\n%s", err, last(string(out), 4000))
	}
	margin := timeMargin * time.Duration(1)
	if raceDetector {
		margin *= 10
	}
	t.Logf("%-42s %9s %9s %9s  %s", "bomb", "compile", "time", "memory", "result")
	for _, b := range allBombs() {
		c, ok := costs[b.name]
		if !ok {
			t.Errorf("%s: no result", b.name)
			continue
		}
		t.Logf("%-42s %7.1fms %7.1fms %7.1fMB  %s: %s", c.Name, float64(c.Compile)/1e6, float64(c.Time)/1e6, float64(c.Allocated)/(1<<20), c.Status, first(c.Message, 110))
		limit := maxTime
		if b.decode {
			limit = maxTimeDecode
		}
		if c.Status != b.status || !strings.Contains(c.Message, b.message) {
			t.Errorf("%s: %s: %s, want %s: …%s…", b.name, c.Status, first(c.Message, 300), b.status, b.message)
		}
		if !strings.Contains(c.Work, b.work) || b.work == "" && c.Work != "" {
			t.Errorf("%s: the work ends with %q, want %q", b.name, c.Work, b.work)
		}
		if c.Time > margin*limit {
			t.Errorf("%s took %v of processor time, allowed are %v (%v with the margin)", b.name, c.Time, limit, margin*limit)
		}
		if c.Compile > margin*maxCompile {
			t.Errorf("%s took %v of processor time to compile, allowed are %v (%v with the margin)", b.name, c.Compile, maxCompile, margin*maxCompile)
		}
		if c.Allocated > maxAllocated && !raceDetector {
			t.Errorf("%s allocated %d MB, allowed are %d", b.name, c.Allocated>>20, maxAllocated>>20)
		}
	}
}

// TestBombChild runs in the child process: it prints the cost of each bomb.
func TestBombChild(t *testing.T) {
	if os.Getenv(child) == "" {
		t.Skip("runs only as the child of TestS22Bombs")
	}
	if !raceDetector {
		// A bomb that is not defused must not exhaust the machine.
		if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: 3 << 30, Max: 3 << 30}); err != nil {
			t.Fatal(err)
		}
	}
	only := os.Getenv("EPHOR_BOMB")
	for _, b := range allBombs() {
		if only != "" && !strings.Contains(b.name, only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "setting off %s\n", b.name)
		c := setOff(b)
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("COST %s\n", text)
	}
}

// setOff measures one bomb: compiling the policy, and decoding and evaluating the object. The shortest time of three counts.
func setOff(b bomb) cost {
	c := cost{Name: b.name, Compile: math.MaxInt64, Time: math.MaxInt64}
	policyText := []byte(b.policy())
	object := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d"},"spec":{"containers":[{"name":"c","image":"nginx:1"}]}}`)
	if b.object != nil {
		object = []byte(b.object())
	}
	policyJSON := policyText
	if policyText[0] != '{' {
		var err error
		if policyJSON, err = yaml.YAMLToJSON(policyText); err != nil {
			c.Status, c.Message = "broken test", err.Error()
			return c
		}
	}
	rounds := 3
	if raceDetector {
		rounds = 1
	}
	for range rounds {
		runtime.GC()
		runtime.LockOSThread()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := processorTime()
		program, status, message := compileBomb(policyJSON)
		compiled := processorTime()
		work := ""
		if program != nil {
			status, message, work = evaluateText(program, object)
		}
		took := processorTime() - compiled
		runtime.ReadMemStats(&after)
		runtime.UnlockOSThread()
		c.Status, c.Message, c.Work = status, ends(message, 1000), work
		c.Compile, c.Time = min(c.Compile, compiled-start), min(c.Time, took)
		c.Allocated = after.TotalAlloc - before.TotalAlloc
	}
	return c
}

// compileBomb decodes and compiles a policy; without a program, status and message say why.
func compileBomb(policyJSON []byte) (program *policy.Program, status, message string) {
	decoded, err := value.DecodeJSON(policyJSON)
	if err != nil {
		return nil, "not decoded", err.Error()
	}
	program, diags := compile.One(compile.Object{Value: decoded.(map[string]any)})
	if diags.HasErrors() {
		return nil, "refused", diags.Err().Error()
	}
	return program, "", ""
}

// evaluateText decodes an object and evaluates a policy on it.
func evaluateText(program *policy.Program, object []byte) (status, message, work string) {
	doc := value.FromJSON(string(object))
	req := request(policy.Create, doc)
	if _, err := doc.Map(); err != nil {
		return "not decoded", err.Error(), ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out := evaluate(ctx, req, program)
	if len(out.Results) != 1 {
		return fmt.Sprintf("%d results", len(out.Results)), "", ""
	}
	for _, w := range out.Work {
		if w.Err != nil {
			work = ends(w.Err.Error(), 1000)
		}
	}
	return out.Results[0].Status.String(), out.Results[0].Message, work
}

func request(op policy.Operation, doc *value.Doc) *policy.Request {
	req := &policy.Request{Review: policy.Review{
		Operation: op, Object: doc, Namespace: "d", Name: "p", UID: "u",
		GVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		User: &policy.User{Username: "u"},
	}}
	req.RequestGVK = req.GVK
	return req
}

// everyStage are all stages that exist.
const everyStage = ^policy.Stage(0)

func evaluate(ctx context.Context, req *policy.Request, programs ...*policy.Program) policy.Outcome {
	selections := catalog.NewStatic(programs).For(req, catalog.Route{Stages: everyStage})
	for _, p := range programs {
		if p.Schedule != nil { // it does not evaluate requests
			selections = append(selections, policy.Selection{Program: p, Rules: p.Rules})
		}
	}
	return engine.Eval(ctx, engine.Input{
		Selections: selections, Request: req, Stages: everyStage,
		Root: fixed.New(fixed.Values{Seed: 1, Now: func() time.Time { return time.Unix(1_700_000_000, 0) }}), Plan: true,
	})
}

// processorTime returns the processor time that the thread has used so far.
func processorTime() time.Duration {
	const thread = 3 // CLOCK_THREAD_CPUTIME_ID
	var t syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, thread, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		panic(err)
	}
	return time.Duration(t.Nano())
}

func first(s string, n int) string {
	s = strings.ReplaceAll(s, "\n", " ")
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

// ends returns the beginning and the end of s.
func ends(s string, n int) string {
	if len(s) <= 2*n {
		return s
	}
	return first(s, n) + last(s, n)
}

func last(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}
