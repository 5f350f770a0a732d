package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/vapgen"
)

const (
	createRounds   = 4
	createRequests = 480 // in each round
)

// created are the figures of creations of Pods by one evaluator.
type created struct {
	perSecond   float64
	p50, p99    time.Duration
	server, own time.Duration // CPU of the API server and of the evaluator's process, for each creation
}

// nativePolicies returns the policies of a folder as policies of the API server.
func nativePolicies(folder string) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, file := range files {
		policy, err := readObject(file)
		if err != nil {
			return nil, err
		}
		one, err := nativePolicy(policy)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, one...)
	}
	return out, nil
}

// nativePolicy returns a policy in CEL as YAML of a policy of the API server with its binding.
func nativePolicy(policy object) (out []byte, err error) {
	static := vapgen.StaticOf(policy, nil)
	if static.Reason != "" {
		return nil, errors.New(static.Reason)
	}
	for _, o := range static.Objects {
		one, err := yaml.Marshal(o)
		if err != nil {
			return nil, err
		}
		out = append(append(out, "---\n"...), strings.ReplaceAll(string(one), vapgen.StaticSuffix, "")...)
	}
	return out, nil
}

func readObject(file string) (o object, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return o, yaml.Unmarshal(text, &o)
}

// create creates a Pod as a dry run.
func create(ctx context.Context, client kubernetes.Interface, bad bool) error {
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(load.Pod("shop", bad), &pod); err != nil {
		return err
	}
	pod.UID, pod.ManagedFields, pod.CreationTimestamp, pod.Spec.ServiceAccountName = "", nil, metav1.Time{}, "default"
	_, err := client.CoreV1().Pods("default").Create(ctx, &pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// unlimited returns a client that sends as much as it can, and prints no warnings.
func unlimited(c *devcluster.Cluster) (kubernetes.Interface, error) {
	config := rest.CopyConfig(c.Config)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	return kubernetes.NewForConfig(config)
}

// createsOn measures rounds of creations of a good Pod; pid is the evaluator's process, 0 for none.
func createsOn(c *devcluster.Cluster, pid int) (created, error) {
	api, err := c.Part(devcluster.APIServer)
	if err != nil {
		return created{}, err
	}
	client, err := unlimited(c)
	if err != nil {
		return created{}, err
	}
	used := func() (server, own time.Duration, err error) {
		if server, err = load.CPUTime(api.PID()); err == nil && pid > 0 {
			own, err = load.CPUTime(pid)
		}
		return server, own, err
	}
	var perSecond []float64
	var p50, p99, server, own []time.Duration
	for round := range createRounds + 1 {
		fromServer, fromOwn, err := used()
		if err != nil {
			return created{}, err
		}
		times, took, err := createRound(client)
		if err != nil {
			return created{}, err
		}
		toServer, toOwn, err := used()
		if err != nil {
			return created{}, err
		}
		if round == 0 { // it only warms up
			continue
		}
		n := time.Duration(len(times))
		perSecond = append(perSecond, float64(len(times))/took.Seconds())
		p50, p99 = append(p50, load.Percentile(times, 50)), append(p99, load.Percentile(times, 99))
		server, own = append(server, (toServer-fromServer)/n), append(own, (toOwn-fromOwn)/n)
	}
	return created{perSecond: load.Median(perSecond), p50: load.Median(p50), p99: load.Median(p99), server: load.Median(server), own: load.Median(own)}, nil
}

// createRound creates Pods by 8 clients at once, and returns the sorted times.
func createRound(client kubernetes.Interface) (times []time.Duration, took time.Duration, err error) {
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	start := time.Now()
	for range connections {
		wg.Go(func() {
			var mine []time.Duration
			var failed error
			for range createRequests / connections {
				t := time.Now()
				if failed = create(context.Background(), client, false); failed != nil {
					break
				}
				mine = append(mine, time.Since(t))
			}
			mu.Lock()
			defer mu.Unlock()
			times, errs = append(times, mine...), append(errs, failed)
		})
	}
	wg.Wait()
	took = time.Since(start)
	slices.Sort(times)
	return times, took, errors.Join(errs...)
}
