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
	createRounds   = 5
	createRequests = 800 // in each round
)

// created are the figures of creations of Pods by one evaluator.
type created struct {
	who         string
	perSecond   float64
	p50, p99    time.Duration
	server, own time.Duration // CPU of the API server and of our process, for each creation
}

// creates measures creations of Pods (server-side dry runs by 8 clients) without policies, with the 18 policies in either language, and with
// the same policies evaluated by the API server itself.
func (b *bench) creates() error {
	var all []created
	plain, native, err := b.createsWithoutEphor()
	if err != nil {
		return err
	}
	all = append(all, plain, native)
	for _, folder := range []string{classicPolicies, celPolicies} {
		c, s, err := b.startAdmission(folder)
		if err != nil {
			return err
		}
		got, err := createsOn(c, "Ephor, "+folder, s.PID)
		c.Stop()
		if err != nil {
			return err
		}
		all = append(all, got)
	}
	for _, x := range all {
		fmt.Printf("%-34s %5.0f creates/s  p50 %5.1f ms  p99 %5.1f ms  CPU of the API server %5.2f ms, of the process %5.2f ms\n",
			x.who, x.perSecond, ms(x.p50), ms(x.p99), ms(x.server), ms(x.own))
		b.figure("creates: "+x.who, fmt.Sprintf("%.0f/s, p50 %.0f ms, p99 %.0f ms, CPU %.1f + %.1f ms", x.perSecond, ms(x.p50), ms(x.p99), ms(x.server), ms(x.own)))
	}
	return nil
}

// createsWithoutEphor measures without policies, and with those in CEL as policies of the API server.
func (b *bench) createsWithoutEphor() (plain, native created, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	c, err := devcluster.Start(ctx, devcluster.Options{})
	if err != nil {
		return plain, native, err
	}
	defer c.Stop()
	if plain, err = createsOn(c, "no policies", 0); err != nil {
		return plain, native, err
	}
	policies, err := nativePolicies(filepath.Join(b.root, "examples", celPolicies))
	if err != nil {
		return plain, native, err
	}
	if _, err := c.Kubectl(ctx, policies, "apply", "-f", "-"); err != nil {
		return plain, native, err
	}
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return plain, native, err
	}
	if err := c.Wait(ctx, "the policies to be in force", func() error {
		if err := create(ctx, client, true); err == nil {
			return errors.New("the bad Pod is still admitted")
		}
		return nil
	}); err != nil {
		return plain, native, err
	}
	native, err = createsOn(c, "the API server's own policies", 0)
	return plain, native, err
}

// nativePolicies returns the policies of a folder as policies of the API server.
func nativePolicies(folder string) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var object map[string]any
		if err := yaml.Unmarshal(text, &object); err != nil {
			return nil, err
		}
		static := vapgen.StaticOf(object, nil)
		if static.Reason != "" {
			return nil, fmt.Errorf("%s: %s", file, static.Reason)
		}
		for _, o := range static.Objects {
			one, err := yaml.Marshal(o)
			if err != nil {
				return nil, err
			}
			out = append(append(out, "---\n"...), strings.ReplaceAll(string(one), vapgen.StaticSuffix, "")...)
		}
	}
	return out, nil
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

// createsOn measures rounds of creations of a good Pod; pid is our process, 0 for none.
func createsOn(c *devcluster.Cluster, who string, pid int) (created, error) {
	api, err := c.Part(devcluster.APIServer)
	if err != nil {
		return created{}, err
	}
	config := rest.CopyConfig(c.Config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
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
			return created{}, fmt.Errorf("%s: %w", who, err)
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
	return created{who: who, perSecond: load.Median(perSecond), p50: load.Median(p50), p99: load.Median(p99), server: load.Median(server), own: load.Median(own)}, nil
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
