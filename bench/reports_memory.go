package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	reportsMany = 50_000
	// reportsGrowth bounds the memory for 50,000 Pods, as a multiple of that for 5,000.
	reportsGrowth = 1.5
)

// memory compares the peak memory of the controller for 5,000 and for 50,000 Pods. No API server on a development machine can hold that
// many: a stub in front of it serves the Pods and accepts the reports.
func (g *reportsBench) memory(ctx context.Context) error {
	fmt.Printf("memory: Pods are listed from, and reports written to, a stub that keeps none; it is used for this figure only\n")
	if err := g.controller.Stop(30 * time.Second); err != nil {
		return err
	}
	few, err := g.stubbed(ctx, reportsPods)
	if err != nil {
		return err
	}
	many, err := g.stubbed(ctx, reportsMany)
	if err != nil {
		return err
	}
	fmt.Printf("memory: %.0f MB for %d Pods, %.0f MB for %d\n", few, reportsPods, many, reportsMany)
	g.row(fmt.Sprintf("memory for %d Pods, times that for %d (stub)", reportsMany, reportsPods), "", many/few, reportsGrowth)
	return nil
}

// stubbed returns the peak memory, in MB, of a controller that has reported about n Pods.
func (g *reportsBench) stubbed(ctx context.Context, n int) (float64, error) {
	stub, err := g.newStub(ctx, n)
	if err != nil {
		return 0, err
	}
	defer stub.server.Close()
	p, err := g.cluster.Run(fmt.Sprint("reports-", n), []string{"KYVERNO_NAMESPACE=kyverno", "KYVERNO_POD_NAME=reports-stub", "KYVERNO_SVC=kyverno-reports", "KYVERNO_DEPLOYMENT=kyverno-reports-controller"},
		g.ephor, "controller", "reports", "--kubeconfig="+stub.kubeconfig, "--healthPort=0", "--metricsPort=0", "--disableMetrics")
	if err != nil {
		return 0, err
	}
	defer p.Kill()
	for stub.reports.Load() < int64(n) {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %d of %d reports are written; the log ends with\n%s", ctx.Err(), stub.reports.Load(), n, p.Tail(5))
		case <-p.Done():
			return 0, fmt.Errorf("the controller ended:\n%s", p.Tail(5))
		case <-time.After(time.Second):
		}
	}
	return peakMB(p.PID())
}

// stub is an API server with many Pods, which accepts reports and discards them. It forwards all other requests to the real one, with the
// reports controller's account.
type stub struct {
	kubeconfig string
	server     *http.Server
	next       http.Handler
	pods       int
	reports    atomic.Int64
}

func (g *reportsBench) newStub(ctx context.Context, pods int) (*stub, error) {
	path, err := g.cluster.ServiceAccountKubeconfig(ctx, "kyverno", "kyverno-reports-controller")
	if err != nil {
		return nil, err
	}
	own, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(own.Host)
	if err != nil {
		return nil, err
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	if proxy.Transport, err = rest.TransportFor(own); err != nil { // adds the token, because clients send none over plain HTTP
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, err
	}
	for _, c := range config.Clusters {
		c.Server, c.CertificateAuthorityData = "http://"+listener.Addr().String(), nil
	}
	s := &stub{next: proxy, pods: pods, kubeconfig: filepath.Join(g.dir, fmt.Sprint("stub-", pods, ".kubeconfig"))}
	if err := clientcmd.WriteToFile(*config, s.kubeconfig); err != nil {
		return nil, err
	}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	reports := reportsGVR.Group + "/" + reportsGVR.Version
	switch path := r.URL.Path; {
	case path == "/api/v1/pods" && query.Get("watch") == "":
		limit, _ := strconv.Atoi(query.Get("limit"))
		from, _ := strconv.Atoi(query.Get("continue"))
		answer(w, http.StatusOK, s.page(from, limit))
	case path == "/api/v1/pods", path == "/apis/"+reports+"/policyreports" && query.Get("watch") != "":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // nothing changes
	case path == "/apis/"+reports+"/policyreports":
		answer(w, http.StatusOK, object{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": object{"resourceVersion": "1000"}, "items": []any{}})
	case r.Method == http.MethodPost && filepath.Base(path) == "policyreports":
		var report object
		if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		report["metadata"].(object)["resourceVersion"] = strconv.FormatInt(1000+s.reports.Add(1), 10)
		answer(w, http.StatusCreated, report)
	case r.Method == http.MethodPost && filepath.Base(path) == "events":
		http.Error(w, "no events", http.StatusForbidden)
	default:
		s.next.ServeHTTP(w, r)
	}
}

// page returns a page of Pods.
func (s *stub) page(from, limit int) object {
	to := min(s.pods, from+limit)
	items := make([]any, 0, limit)
	for i := from; i < to; i++ {
		pod := benchPod(i)
		m := pod["metadata"].(object)
		m["uid"], m["resourceVersion"], m["generation"] = fmt.Sprintf("00000000-0000-0000-0000-%012d", i), "1000", 1
		items = append(items, pod)
	}
	list := object{"resourceVersion": "1000"}
	if to < s.pods {
		list["continue"] = strconv.Itoa(to)
	}
	return object{"apiVersion": "v1", "kind": "PodList", "metadata": list, "items": items}
}

func answer(w http.ResponseWriter, code int, o object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(o)
}
