package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/internal/devcluster"
)

// The limits of the first scan of 5,000 Pods by the 18 Pod Security policies.
const (
	reportsPods      = 5000
	reportsSeconds   = 90
	reportsCPU       = 24
	reportsMB        = 150
	reportsServerCPU = 85
	reportsWrites    = 1.1
)

var (
	podsGVR      = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	ephemeralGVR = schema.GroupVersionResource{Group: "reports.kyverno.io", Version: "v1", Resource: "ephemeralreports"}
	reportsGVR   = schema.GroupVersionResource{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "policyreports"}
)

// reportsBench is a control plane with Pods, on which the reports controller runs.
type reportsBench struct {
	*bench
	cluster    *devcluster.Cluster
	config     *rest.Config
	objects    *dynamic.DynamicClient
	reports    metadata.Interface
	audit      *load.Audit
	controller *devcluster.Replica
	server     int // process ID of the API server
}

// reports measures the cost of reports: the first scan of existing Pods when policies are installed in Audit, until every Pod has a
// complete report; Pods that change; a policy that changes; idle time; and ten times as many Pods.
func (b *bench) reports() error {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	g := &reportsBench{bench: b}
	if err := g.start(ctx); err != nil {
		return err
	}
	defer g.cluster.Stop()
	defer b.print() // also the rows before a failure
	for _, part := range []func(context.Context) error{g.firstScan, g.podsChange, g.policyChanges, g.nothing, g.memory} {
		if err := part(ctx); err != nil {
			return fmt.Errorf("%w; the controller's log ends with:\n%s", err, g.controller.Tail(10))
		}
	}
	return nil
}

func (g *reportsBench) start(ctx context.Context) error {
	audit, flags, err := load.NewAudit(g.dir, "kyverno")
	if err != nil {
		return err
	}
	g.audit = audit
	if g.cluster, err = devcluster.Start(ctx, devcluster.Options{Progress: os.Stdout, APIServerFlags: flags}); err != nil {
		return err
	}
	ephor, err := g.cluster.InstallEphor(ctx)
	if err != nil {
		return err
	}
	g.config = rest.CopyConfig(g.cluster.Config)
	g.config.QPS = -1
	var err1, err2 error
	g.objects, err1 = dynamic.NewForConfig(g.config)
	g.reports, err2 = metadata.NewForConfig(g.config)
	if err := errors.Join(err1, err2, makePods(ctx, g.config, reportsPods)); err != nil {
		return err
	}
	if _, err := ephor.StartAdmission(ctx); err != nil {
		return err
	}
	if g.controller, err = ephor.Start(ctx, devcluster.Reports); err != nil {
		return err
	}
	g.server, err = processOf(g.cluster.Dir, "kube-apiserver")
	return err
}

// cost returns the CPU time that the controller and the API server use while f runs, and the time that f takes.
func (g *reportsBench) cost(f func() error) (controller, server, took time.Duration, err error) {
	before, err1 := load.CPUTime(g.controller.PID())
	serverBefore, err2 := load.CPUTime(g.server)
	began := time.Now()
	err = f()
	took = time.Since(began)
	after, err3 := load.CPUTime(g.controller.PID())
	serverAfter, err4 := load.CPUTime(g.server)
	return after - before, serverAfter - serverBefore, took, errors.Join(err, err1, err2, err3, err4)
}

// firstScan installs the policies.
func (g *reportsBench) firstScan(ctx context.Context) error {
	policies, err := g.auditPolicies()
	if err != nil {
		return err
	}
	var writes float64
	cpu, server, took, err := g.cost(func() (err error) {
		if _, err := g.cluster.Kubectl(ctx, policies, "apply", "-f", "-"); err != nil {
			return err
		}
		writes, err = g.awaitReports(ctx, reportsPods)
		return err
	})
	if err != nil {
		return err
	}
	peak, err := peakMB(g.controller.PID())
	if err != nil {
		return err
	}
	g.row(fmt.Sprintf("first scan, %d Pods, 18 policies: every report is there", reportsPods), "s", took.Seconds(), reportsSeconds)
	g.row("first scan: CPU of the controller", "s", cpu.Seconds(), reportsCPU)
	g.row("first scan: its peak memory", "MB", peak, reportsMB)
	g.row("first scan: CPU of the API server", "s", server.Seconds(), reportsServerCPU)
	g.row("first scan: writes per report", "", writes, reportsWrites)
	return g.stored(ctx)
}

// stored prints how much space the reports take in etcd.
func (g *reportsBench) stored(ctx context.Context) error {
	list, err := g.objects.Resource(reportsGVR).List(ctx, metav1.ListOptions{Limit: 100})
	if err != nil {
		return err
	}
	bytes := 0
	for i := range list.Items {
		text, err := list.Items[i].MarshalJSON() // custom resources are stored as JSON
		if err != nil {
			return err
		}
		bytes += len(text)
	}
	fmt.Printf("a report takes %d bytes in etcd, %d of them %.1f MB\n", bytes/len(list.Items), reportsPods, float64(bytes/len(list.Items)*reportsPods)/1e6)
	return nil
}

// makePods creates the Pods, in ten namespaces.
func makePods(ctx context.Context, cfg *rest.Config, n int) error {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	for i := range 10 {
		ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": fmt.Sprint("bench-", i)}}}
		if _, err := namespaces.Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	errs := make([]error, 8)
	var running sync.WaitGroup
	for worker := range errs {
		running.Go(func() {
			for i := worker; i < n && errs[worker] == nil; i += len(errs) {
				pod := &unstructured.Unstructured{Object: benchPod(i)}
				ns := pod.GetNamespace()
				for try := range 50 {
					if _, errs[worker] = client.Resource(podsGVR).Namespace(ns).Create(ctx, pod, metav1.CreateOptions{}); errs[worker] == nil || try > 0 && ctx.Err() != nil {
						break
					}
					time.Sleep(100 * time.Millisecond) // the namespace's service account does not exist yet
				}
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// benchPod returns the Pod with a number; each fiftieth shares the network of its node.
func benchPod(i int) object {
	security := object{"allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": object{"drop": []any{"ALL"}}}
	return object{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": object{"name": fmt.Sprint("pod-", i), "namespace": fmt.Sprint("bench-", i%10), "labels": object{"team": fmt.Sprint("t", i%7)}},
		"spec": object{
			"hostNetwork": i%50 == 0, "automountServiceAccountToken": false, "serviceAccountName": "default",
			"containers": []any{object{"name": "web", "image": "registry.example.com/web:1", "securityContext": security}},
		},
	}
}

// auditPolicies returns the policies of examples/pod-security with the action Audit.
func (b *bench) auditPolicies() ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(b.root, "examples", "pod-security", "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		all.WriteString("---\n" + strings.ReplaceAll(string(text), "Enforce", "Audit") + "\n")
	}
	return []byte(all.String()), nil
}

// awaitReports waits until there are n reports, and returns the average number of times that each was written.
func (g *reportsBench) awaitReports(ctx context.Context, n int) (float64, error) {
	for ; ; time.Sleep(200 * time.Millisecond) {
		one, err := g.reports.Resource(reportsGVR).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return 0, err
		}
		if one.RemainingItemCount != nil && *one.RemainingItemCount+1 >= int64(n) {
			break
		}
	}
	writes, all, err := g.generations(ctx)
	return float64(writes) / float64(all), err
}

// generations returns how often all reports were written with changed content, and their number.
func (g *reportsBench) generations(ctx context.Context) (writes int64, reports int, err error) {
	list, err := g.reports.Resource(reportsGVR).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, 0, err
	}
	for i := range list.Items {
		writes += list.Items[i].Generation
	}
	return writes, len(list.Items), nil
}

// processOf finds a process of the control plane whose files are in dir.
func processOf(dir, program string) (int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(text), program) && strings.Contains(string(text), dir) {
			return strconv.Atoi(filepath.Base(filepath.Dir(f)))
		}
	}
	return 0, fmt.Errorf("no process %s was found", program)
}

// peakMB returns the peak resident memory of a running process, in MB (Linux).
func peakMB(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "VmHWM:" {
			kb, err := strconv.ParseFloat(f[1], 64)
			return kb / 1000, err
		}
	}
	return 0, errors.New("no VmHWM in /proc/PID/status")
}
