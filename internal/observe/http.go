package observe

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// HTTP wraps the handler of a server. It counts requests, their duration, and the sizes of their bodies. A nil *Metrics
// returns next.
func (m *Metrics) HTTP(next http.Handler) http.Handler {
	if m == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		a := &answer{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(a, r)
		m.served(r, a.status, a.bytes, time.Since(began))
	})
}

// answer records the response of a handler.
type answer struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	n, err := a.ResponseWriter.Write(b)
	a.bytes += int64(n)
	return n, err
}

// Unwrap gives http.ResponseController access to the wrapped writer.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (m *Metrics) served(r *http.Request, status int, bytes int64, took time.Duration) {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	method, code, host, version := methodOf(r.Method), statusText(status), hostOf(r.Host), versionOf(r)
	m.serverDuration.with(method, code, "http", version, host, scheme).observe(took.Seconds())
	m.serverIn.with(method, code, "http", version, host, scheme).observe(float64(max(r.ContentLength, 0)))
	m.serverOut.with(method, code, "http", version, host, scheme).observe(float64(bytes))
	if r.Method != http.MethodPost || status == http.StatusNotFound {
		return // probes, and paths that are not served
	}
	var room [256]byte
	url := append(room[:0], r.URL.Path...)
	if t := timeoutOf(r.URL.RawQuery); t != "" {
		url = append(append(url, "?timeout="...), t...)
	}
	m.http.withURL(method, url).add(1)
	m.httpDuration.withURL(method, url).observe(took.Seconds())
}

// withURL does the same as with, for a URL in bytes. It converts the URL only when it creates a new series.
func (f *family) withURL(method string, url []byte) *series {
	st := f.state.Load()
	if st.off || !st.keep[0] || !st.keep[1] {
		return st.with(f, []string{method, string(url)})
	}
	var room [512]byte
	key := append(append(append(append(room[:0], method...), separator), url...), separator)
	st.mu.RLock()
	s := st.series[string(key)]
	st.mu.RUnlock()
	if s == nil {
		s = st.create(f, []string{method, string(url)})
	}
	return s
}

// timeoutOf returns the timeout that the API server adds to the URL. No other part of the query becomes a label.
func timeoutOf(query string) string {
	v, ok := strings.CutPrefix(query, "timeout=")
	if !ok || len(v) < 2 || len(v) > 4 || v[len(v)-1] != 's' {
		return ""
	}
	for _, c := range []byte(v[:len(v)-1]) {
		if c < '0' || c > '9' {
			return ""
		}
	}
	return v
}

func methodOf(m string) string {
	switch m {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodHead, http.MethodPatch, http.MethodOptions:
		return m
	}
	return other
}

func statusText(status int) string {
	if status == http.StatusOK {
		return "200"
	}
	return strconv.Itoa(status)
}

// hostOf returns the host without the port.
func hostOf(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		return host[:i]
	}
	return host
}

func versionOf(r *http.Request) string {
	switch {
	case r.ProtoMajor == 2:
		return "2"
	case r.ProtoMajor == 1 && r.ProtoMinor == 1:
		return "1.1"
	}
	return strconv.Itoa(r.ProtoMajor) + "." + strconv.Itoa(r.ProtoMinor)
}
