package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/lifecycle"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/world"
)

const (
	pairs          = 7
	policyRequests = 6000 // in each round
	otherKind      = 999
	sameKind       = 300
)

// policies measures classic policies that do not match.
func (b *bench) policies() error {
	path := func([]object) string { return "/validate/fail" }
	return b.policySets("policies", path, onPods("base", nil), onOtherKind, excluded)
}

// celPolicySets measures the same with CEL policies. The path names all policies for the same resource.
func (b *bench) celPolicySets() error {
	path := func(all []object) string {
		path := "/vpol"
		for _, p := range all {
			rule := p["spec"].(object)["matchConstraints"].(object)["resourceRules"].([]any)[0].(object)
			if rule["resources"].([]any)[0] == "pods" {
				path += "/" + p["metadata"].(object)["name"].(string)
			}
		}
		return path
	}
	return b.policySets("cel-policies", path, celOn("base", "pods", nil), celOnOtherKind, celExcluded)
}

// policySets measures one review of a Pod with one policy that matches, and the same with many more that do not: three servers with our
// handler and static policies, called alternately. (A control plane has one set of policies; three control planes would disturb each
// other.)
func (b *bench) policySets(row string, path func([]object) string, base object, onOtherKind, excluded func(int) object) error {
	body := load.Review(load.Pod("shop", false))
	sets := []struct {
		name   string
		more   func(int) object
		count  int
		target float64
	}{
		{"one policy", nil, 0, 0},
		{fmt.Sprintf("%d more on another kind", otherKind), onOtherKind, otherKind, 1.05},
		{fmt.Sprintf("%d more on Pod, excluded by name, namespace or label", sameKind), excluded, sameKind, 1.3},
	}
	servers := make([]*load.Server, len(sets))
	for i, set := range sets {
		file := filepath.Join(b.dir, fmt.Sprintf("policies-%d.json", i))
		all := []object{base}
		for n := range set.count {
			all = append(all, set.more(n))
		}
		if err := os.WriteFile(file, load.JSON(all), 0o600); err != nil {
			return err
		}
		s, stop, err := startStatic(file, path(all))
		if err != nil {
			return err
		}
		defer stop()
		servers[i] = s
	}
	ratios := make([][]float64, len(sets))
	cpu := make([][]time.Duration, len(sets))
	for round := range pairs + 1 {
		for i, s := range servers {
			r, err := s.Round(policyRequests, load.Question{Body: body, Allowed: true})
			if err != nil {
				return err
			}
			if round > 0 { // the first round only warms up
				cpu[i] = append(cpu[i], r.CPU)
			}
		}
		if round > 0 {
			for i := range servers {
				ratios[i] = append(ratios[i], float64(cpu[i][round-1])/float64(cpu[0][round-1]))
			}
		}
	}
	for i, set := range sets {
		fmt.Printf("%-55s CPU %5.0f µs per request\n", set.name, float64(load.Median(cpu[i]).Nanoseconds())/1000)
	}
	other, same := load.Median(ratios[1]), load.Median(ratios[2])
	b.row(row+"-other-kind", "x", other, sets[1].target)
	b.row(row+"-same-kind", "x", same, sets[2].target)
	fmt.Printf("%s ratio: other kind %.2f same kind %.2f\n", row, other, same)
	return nil
}

// onPods returns a policy for Pods; resources restricts which ones it matches.
func onPods(name string, resources object) object {
	match := object{"kinds": []any{"Pod"}}
	for k, v := range resources {
		match[k] = v
	}
	return object{
		"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": object{"name": name},
		"spec": object{"rules": []any{object{
			"name": "privileged", "match": object{"any": []any{object{"resources": match}}},
			"validate": object{"failureAction": "Enforce", "message": "privileged containers are not allowed",
				"pattern": object{"spec": object{"containers": []any{object{"=(securityContext)": object{"=(privileged)": "false"}}}}}},
		}}},
	}
}

func onOtherKind(n int) object {
	p := onPods(fmt.Sprintf("other-%d", n), nil)
	rule := p["spec"].(object)["rules"].([]any)[0].(object)
	rule["match"] = object{"any": []any{object{"resources": object{"kinds": []any{"Service"}}}}}
	return p
}

func excluded(n int) object {
	narrow := []object{
		{"names": []any{fmt.Sprintf("other-%d", n)}},
		{"namespaces": []any{fmt.Sprintf("other-%d", n)}},
		{"selector": object{"matchLabels": object{"team": fmt.Sprintf("other-%d", n)}}},
	}
	return onPods(fmt.Sprintf("excluded-%d", n), narrow[n%len(narrow)])
}

// startStatic runs this program as a server with the policies of the file; path is the path of requests.
func startStatic(file, path string) (*load.Server, func(), error) {
	addr, pid, stop, err := startSelf(serveCommand, file)
	if err != nil {
		return nil, nil, err
	}
	return load.NewServer("https://"+addr+path+"?timeout=10s", pid, connections), stop, nil
}

// startSelf runs this program again, as a server that prints its address.
func startSelf(args ...string) (addr string, pid int, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", 0, nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", 0, nil, err
	}
	stop = func() { cmd.Process.Kill(); cmd.Wait() }
	if addr, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		stop()
		return "", 0, nil, fmt.Errorf("%s did not start: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(addr), cmd.Process.Pid, stop, nil
}

// serveCommand is the argument that makes the program a server.
const serveCommand = "serve-static"

// serveStatic is our admission server with static policies; it prints its address. The garbage collector is tuned as in a controller that has started.
func serveStatic(file string) error {
	lifecycle.TuneHeap(0)
	debug.SetGCPercent(lifecycle.GCPercent)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var values []map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		return err
	}
	objects := make([]compile.Object, len(values))
	for i, v := range values {
		objects[i].Value = v
	}
	programs, diags := compile.Compile(objects)
	if err := diags.Err(); err != nil {
		return err
	}
	cert, err := selfSigned()
	if err != nil {
		return err
	}
	snapshot := catalog.NewStatic(programs)
	s := admission.New(admission.Options{Timeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler), Now: time.Now},
		func() *catalog.Snapshot { return snapshot }, new(settings.Store),
		world.RootFunc(func(world.Reach) world.World { return world.World{} }), noCluster{}, func() error { return nil })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.Open() // the server has all policies
	fmt.Println(l.Addr())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return s.Run(ctx, l, cert)
}

// noCluster is never called, since the policies of this measurement need no lookups: a call would panic, which the server answers with an
// error and the measurement counts.
type noCluster struct{ admission.Cluster }
