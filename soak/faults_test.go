package soak

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// faulty is a proxy before the API server that answers a tenth of all writes itself: with a conflict, with too many requests, or with an
// internal error. Half of the internal errors follow a successful write whose answer is lost.
type faulty struct {
	off           atomic.Bool
	writes, wrong atomic.Int64

	kubeconfig string
	proxy      *httputil.ReverseProxy
}

// beforeAPIServer starts a proxy with faults for one service account, and writes a kubeconfig that goes through it.
func (p *installation) beforeAPIServer(serviceAccount string) *faulty {
	p.Helper()
	f := &faulty{}
	f.kubeconfig = p.proxied(serviceAccount, func(proxy *httputil.ReverseProxy) http.Handler { f.proxy = proxy; return f })
	return f
}

// proxied writes a kubeconfig for a service account whose requests pass through a proxy to the API server, which handler wraps.
func (p *installation) proxied(serviceAccount string, handler func(*httputil.ReverseProxy) http.Handler) (kubeconfig string) {
	p.Helper()
	target, err := url.Parse(p.Config.Host)
	if err != nil {
		p.Fatal(err)
	}
	token := strings.TrimSpace(p.kubectl("create", "token", serviceAccount, "-n", namespace, "--duration=24h"))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.Config.CAData)
	server := httptest.NewServer(handler(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Authorization", "Bearer "+token) // clients send none over plain HTTP
		},
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: 100},
		FlushInterval: -1, // watches
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			status(w, http.StatusServiceUnavailable, "ServiceUnavailable", err.Error()) // the API server is being restarted
		},
	}))
	p.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return writeKubeconfig(p.T, server.URL)
}

func writeKubeconfig(t *testing.T, server string) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["faulty"] = &clientcmdapi.Cluster{Server: server}
	c.Contexts["faulty"] = &clientcmdapi.Context{Cluster: "faulty"}
	c.CurrentContext = "faulty"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// ServeHTTP implements http.Handler.
func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		f.proxy.ServeHTTP(w, r)
		return
	}
	f.writes.Add(1)
	if f.off.Load() || rand.IntN(10) > 0 {
		f.proxy.ServeHTTP(w, r)
		return
	}
	f.wrong.Add(1)
	switch rand.IntN(4) {
	case 0:
		reason := "Conflict"
		if r.Method == http.MethodPost {
			reason = "AlreadyExists"
		}
		status(w, http.StatusConflict, reason, "a fault for the test")
	case 1:
		if rand.IntN(2) == 0 {
			w.Header().Set("Retry-After", "1")
		}
		status(w, http.StatusTooManyRequests, "TooManyRequests", "a fault for the test")
	case 2:
		f.proxy.ServeHTTP(httptest.NewRecorder(), r) // it is written, but the answer is lost
		fallthrough
	default:
		status(w, http.StatusInternalServerError, "InternalError", "a fault for the test")
	}
}

// status writes an error in the form of the API server.
func status(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprint(w, encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code,
	}))
}
