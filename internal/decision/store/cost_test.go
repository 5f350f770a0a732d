package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/seal"
	"ephor.invalid/ephor/internal/value"
)

// reviewsOf returns a function that makes a review of a Pod of 7 kB with the results of 18 policies that pass, as admission passes it on.
func reviewsOf(t testing.TB, pods int) func(i int) decision.Review {
	pod, err := os.ReadFile("../testdata/pod.json")
	if err != nil {
		t.Fatal(err)
	}
	var programs []*policy.Program
	var rules []*policy.Rule
	for i := range 18 {
		programs = append(programs, &policy.Program{Name: fmt.Sprintf("disallow-capabilities-%d", i)})
		rules = append(rules, &policy.Rule{Name: "adding-capabilities"})
	}
	gvk, gvr := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	before, after, _ := strings.Cut(string(pod), "NAME")
	return func(i int) decision.Review {
		name := fmt.Sprintf("web-%d", i%pods)
		results := make([]policy.Result, len(programs))
		for n := range results {
			results[n] = policy.Result{
				Program: programs[n], Rule: rules[n], Action: policy.Deny, Elapsed: time.Duration(1000+7*i+131*n) % 100_000,
				Yield: policy.Yield{Status: policy.StatusPass, Message: "validation rule 'adding-capabilities' passed."},
			}
		}
		return decision.Review{
			Request: &policy.Request{Review: policy.Review{
				UID: "705ab4f5-6393-11e8-b7cc-42010a800002", Operation: policy.Create, GVK: gvk, RequestGVK: gvk, GVR: gvr, Namespace: "default", Name: name,
				Object: value.FromJSON(before + name + strings.ReplaceAll(after, "NAME", name)), Options: map[string]any{"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
				User: &policy.User{Username: "system:serviceaccount:kube-system:replicaset-controller", UID: "a7e1d8c3", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}},
			}},
			Webhook: "ValidatingWebhookConfiguration", Decision: policy.Decision{Allowed: true}, Results: results, At: day.Add(time.Duration(i) * time.Millisecond), Took: 123456,
			Policies: [16]byte{1, 2, 3},
		}
	}
}

// sink answers batches over TLS as a Receiver does, but does not read them, so that a benchmark measures only the sender.
func sink(t testing.TB) *Remote {
	a := newAuthority(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{a.issue(t, "server", x509.ExtKeyUsageServerAuth)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool()},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusNoContent)
		}),
	}
	go func() { _ = s.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = s.Close() })
	client := &tls.Config{RootCAs: a.pool(), ServerName: "server", Certificates: []tls.Certificate{a.issue(t, "sender", x509.ExtKeyUsageClientAuth)}}
	to, err := NewRemote("https://"+l.Addr().String(), func() (*tls.Config, error) { return client.Clone(), nil })
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// cpuTime returns the CPU time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRecorded measures the CPU time of a review that is recorded with its request, from Put to the store: for a Pod that was recorded
// before, and for a new one. "nothing" is the cost of making a new Pod. The remote store includes the cost of the other end of the connection.
func BenchmarkRecorded(b *testing.B) {
	secret := [32]byte{1, 2, 3}
	key, err := seal.NewKey(secret[:])
	if err != nil {
		b.Fatal(err)
	}
	ring, err := seal.NewKeyring(key)
	if err != nil {
		b.Fatal(err)
	}
	redaction, err := decision.ParseRedaction(decision.DefaultRedaction)
	if err != nil {
		b.Fatal(err)
	}
	lines := func() decision.Store { return decision.NewLines(io.Discard) }
	remote := func() decision.Store { return sink(b) }
	for _, c := range []struct {
		name string
		pods int
		to   func() decision.Store
	}{
		{"nothing/known", 100, nil}, {"nothing/new", 1 << 40, nil}, {"lines/known", 100, lines}, {"lines/new", 1 << 40, lines}, {"remote/known", 100, remote}, {"remote/new", 1 << 40, remote},
	} {
		b.Run(c.name, func(b *testing.B) {
			review := reviewsOf(b, c.pods)
			known := make([]decision.Review, 100)
			for i := range known {
				known[i] = review(i)
			}
			o := &observed{}
			var feed *decision.Feed
			done := make(chan struct{})
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			if c.to != nil {
				feed = decision.NewFeed(decision.Options{
					Store: c.to(), Capacity: 10_000, Users: decision.NameUsers, Requests: true, Redaction: redaction, Keep: decision.Keep{Share: 1}, Observer: o, Log: slog.New(slog.DiscardHandler),
					Digests: keystore.NewDigests(&keystore.Cached{Load: func(context.Context) (*seal.Keyring, error) { return ring, nil }, Now: time.Now}),
				})
			}
			go func() { feed.Run(ctx); close(done) }()
			b.ReportAllocs()
			before, i := cpuTime(b), 0
			for b.Loop() {
				for feed != nil && int64(i)-o.stored.Load()-o.dropped.Load() > 300 {
					time.Sleep(200 * time.Microsecond) // keeps the waiting records below the limit of their size
				}
				if c.pods > len(known) {
					feed.Put(review(i))
				} else {
					feed.Put(known[i%len(known)])
				}
				i++
			}
			cancel()
			<-done
			runtime.Gosched()
			b.ReportMetric(float64(cpuTime(b)-before)/float64(i), "cpu-ns/op")
			b.ReportMetric(float64(o.dropped.Load()), "dropped")
			if n := o.stored.Load() + o.dropped.Load(); feed != nil && n != int64(i) {
				b.Fatalf("%d of %d reviews are accounted for", n, i)
			}
		})
	}
}
