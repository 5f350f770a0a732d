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

	"github.com/ephor-dev/ephor/bench/load"
	"github.com/ephor-dev/ephor/internal/devcluster"
)

// What the first scan of 5,000 Pods by the 18 Pod Security policies may take.
const (
	reportsPods      = 5000
	reportsSeconds   = 90
	reportsCPU       = 24
	reportsMB        = 150
	reportsServerCPU = 85
	reportsWrites    = 1.1
)

var (
	podsGVR    = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	reportsGVR = schema.GroupVersionResource{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "policyreports"}
)

// reports measures the first scan: Pods exist, then policies are installed in Audit, until every Pod has its report with
// all its results.
func (b *bench) reports() error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	c, err := devcluster.Start(ctx, devcluster.Options{Progress: os.Stdout})
	if err != nil {
		return err
	}
	defer c.Stop()
	ephor, err := c.InstallEphor(ctx)
	if err != nil {
		return err
	}
	cfg := rest.CopyConfig(c.Config)
	cfg.QPS = -1
	if err := makePods(ctx, cfg, reportsPods); err != nil {
		return err
	}
	if _, err := ephor.StartAdmission(ctx); err != nil {
		return err
	}
	controller, err := ephor.Start(ctx, devcluster.Reports)
	if err != nil {
		return err
	}
	policies, err := b.auditPolicies()
	if err != nil {
		return err
	}
	server, err := processOf(c.Dir, "kube-apiserver")
	if err != nil {
		return err
	}
	before, err1 := load.CPUTime(controller.PID())
	serverBefore, err2 := load.CPUTime(server)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	began := time.Now()
	if _, err := c.Kubectl(ctx, policies, "apply", "-f", "-"); err != nil {
		return err
	}
	applied := time.Since(began)
	writes, err := awaitReports(ctx, cfg, reportsPods)
	if err != nil {
		return fmt.Errorf("%w; the controller's log ends with:\n%s", err, controller.Tail(10))
	}
	took := time.Since(began)
	after, err1 := load.CPUTime(controller.PID())
	serverAfter, err2 := load.CPUTime(server)
	peak, err3 := peakMB(controller.PID())
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	fmt.Printf("%d Pods, 18 policies (applied in %.1f s):\n", reportsPods, applied.Seconds())
	for _, r := range []struct {
		name          string
		value, target float64
	}{
		{"every report is there, s", took.Seconds(), reportsSeconds},
		{"CPU of the controller, s", (after - before).Seconds(), reportsCPU},
		{"its peak memory, MB", peak, reportsMB},
		{"CPU of the API server, s", (serverAfter - serverBefore).Seconds(), reportsServerCPU},
		{"writes per report", writes, reportsWrites},
	} {
		verdict := "ok"
		if r.value > r.target {
			verdict = "MISS"
		}
		fmt.Printf("%-28s %8.2f  (target %6.2f)  %s\n", r.name, r.value, r.target, verdict)
	}
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
	security := map[string]any{"allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": map[string]any{"drop": []any{"ALL"}}}
	errs := make([]error, 8)
	var running sync.WaitGroup
	for worker := range errs {
		running.Go(func() {
			for i := worker; i < n && errs[worker] == nil; i += len(errs) {
				ns := fmt.Sprint("bench-", i%10)
				pod := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": "Pod",
					"metadata": map[string]any{"name": fmt.Sprint("pod-", i), "namespace": ns, "labels": map[string]any{"team": fmt.Sprint("t", i%7)}},
					"spec": map[string]any{
						"hostNetwork": i%50 == 0, "automountServiceAccountToken": false, "serviceAccountName": "default",
						"containers": []any{map[string]any{"name": "web", "image": "registry.example.com/web:1", "securityContext": security}},
					},
				}}
				for try := range 50 {
					if _, errs[worker] = client.Resource(podsGVR).Namespace(ns).Create(ctx, pod, metav1.CreateOptions{}); errs[worker] == nil || try > 0 && ctx.Err() != nil {
						break
					}
					time.Sleep(100 * time.Millisecond) // the namespace's service account is still to come
				}
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// auditPolicies are the policies of examples/pod-security with the action Audit.
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

// awaitReports waits until there are n reports that nobody writes any longer, and returns how often each was written.
func awaitReports(ctx context.Context, cfg *rest.Config, n int) (float64, error) {
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return 0, err
	}
	for ; ; time.Sleep(200 * time.Millisecond) {
		one, err := client.Resource(reportsGVR).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return 0, err
		}
		if one.RemainingItemCount != nil && *one.RemainingItemCount+1 >= int64(n) {
			break
		}
	}
	// Each write of content raises the generation.
	writes := int64(0)
	list, err := client.Resource(reportsGVR).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for i := range list.Items {
		writes += list.Items[i].Generation
	}
	return float64(writes) / float64(len(list.Items)), nil
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

// peakMB is the most resident memory that a running process has had, in MB (Linux).
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
