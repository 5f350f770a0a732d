package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Fault is what goes wrong with one request. The zero value is a request that works.
type Fault struct {
	// Name is the name of the fault in the trace.
	Name string
	// Delay and AnswerDelay are the times before and after the request is handled.
	Delay, AnswerDelay time.Duration
	// Hang: the request is never answered.
	Hang bool
	// Status is answered instead, and the request is not handled; nil for none.
	Status *metav1.Status
	// LoseAnswer: the request is handled, and the client gets a connection error.
	LoseAnswer bool
	// CutAfter is the time after which a watch ends; 0 for not at all.
	CutAfter time.Duration
	// Behind is the number of versions by which a list from the cache (resourceVersion=0) is behind.
	Behind int64
}

// Client is the way of one client to the server.
type Client struct {
	// Name identifies the client in faults, rights and the trace. User is its user name.
	Name, User string
	server     *Server

	mu   sync.Mutex
	held chan struct{} // closed when the way is free again; nil while it is free
	cut  bool
	dead bool // no Join
	skew time.Duration
}

// Client returns the client with a name; there is one for each name.
func (s *Server) Client(name, user string) *Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[name] == nil {
		s.clients[name] = &Client{Name: name, User: user, server: s}
	}
	return s.clients[name]
}

// Config returns the configuration of clients that use this way.
func (c *Client) Config() *rest.Config {
	return &rest.Config{
		Host: "http://apiserver.invalid", Transport: c, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	}
}

// Hold holds back all requests and answers of the client, until Release.
func (c *Client) Hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held = make(chan struct{})
	}
}

// Release ends a Hold.
func (c *Client) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held != nil {
		close(c.held)
		c.held = nil
	}
}

// Cut makes all requests of the client fail, and ends its watches with an error, until Join.
func (c *Client) Cut() {
	c.mu.Lock()
	c.cut = true
	c.mu.Unlock()
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	for _, t := range c.server.tables {
		for w := range t.watchers {
			if w.client == c {
				w.wake()
			}
		}
	}
}

// Crash is a Cut without an end.
func (c *Client) Crash() {
	c.mu.Lock()
	c.dead = true
	c.mu.Unlock()
	c.Cut()
}

// Join ends a Cut.
func (c *Client) Join() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = c.dead
}

// errCut is the error of requests that do not reach the server.
var errCut = errors.New("dial tcp: connect: connection refused (simulated)")

// passes waits while the way is held. It returns an error if the way is cut.
func (c *Client) passes(ctx context.Context) error {
	for {
		c.mu.Lock()
		held, cut := c.held, c.cut
		c.mu.Unlock()
		if cut {
			return errCut
		}
		if held == nil {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-held:
		}
	}
}

func (c *Client) isHeld() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held != nil
}

// errLocked is the answer to a request that would wait while its goroutine holds a lock of a library.
var errLocked = errors.New("net/http: timeout awaiting response headers (simulated)")

// lockedElsewhere reports whether this goroutine holds a lock of a library while it asks for discovery: the RESTMapper of controller-runtime is
// such a library. Goroutines that wait for the lock would stop the virtual time, so such a request fails at once instead of waiting, and is not
// told to wait before it tries again.
func lockedElsewhere() bool {
	text := make([]byte, 16<<10)
	text = text[:runtime.Stack(text, false)]
	return bytes.Contains(text, []byte("controller-runtime/pkg/client/apiutil")) || bytes.Contains(text, []byte("discovery.fetchGroupVersionResources"))
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// RoundTrip implements http.RoundTripper.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	s := c.server
	q := &Request{
		Client: c.Name, Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Accept: r.Header.Get("Accept"), ContentType: r.Header.Get("Content-Type"),
		ctx: r.Context(), client: c,
	}
	if r.Body != nil {
		var err error
		q.Body, err = io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	q.parse()
	began := time.Now()
	response, fault, err := c.pass(q)
	code := 0
	if response != nil {
		code = response.StatusCode
		response.Request = r
	}
	if q.Resource == "" && (err != nil || response.Header.Get("Retry-After") != "") && lockedElsewhere() {
		// client-go would wait before it tries again.
		if err != nil {
			err = errLocked
		} else {
			response.Header.Del("Retry-After")
		}
	}
	n := s.trace.add(Call{At: began, Took: time.Since(began), Request: q, Query: r.URL.RawQuery, Code: code, Err: err, Fault: fault.Name, Handled: q.handled})
	if n == flood && s.Flooded != nil {
		s.Flooded(q)
	}
	return response, err
}

func (c *Client) pass(q *Request) (*http.Response, Fault, error) {
	s := c.server
	var fault Fault
	if s.Fault != nil {
		fault = s.Fault(q)
	}
	if q.Resource == "" && (fault.Hang || fault.Delay > 0 || fault.AnswerDelay > 0 || c.isHeld()) && lockedElsewhere() {
		return nil, fault, errLocked
	}
	if err := c.passes(q.ctx); err != nil {
		return nil, fault, err
	}
	q.Body, q.behind = shifted(q.Body, c.ahead()), fault.Behind
	if fault.Hang {
		<-q.ctx.Done()
		return nil, fault, q.ctx.Err()
	}
	if err := wait(q.ctx, fault.Delay); err != nil {
		return nil, fault, err
	}
	var response *http.Response
	if fault.Status != nil {
		response = q.fail(statusError{fault.Status})
	} else {
		response = s.serve(q)
		q.handled = response.StatusCode < http.StatusMultipleChoices
	}
	err := wait(q.ctx, fault.AnswerDelay)
	if err == nil {
		err = c.passes(q.ctx)
	}
	if err == nil && fault.LoseAnswer {
		err = errors.New("read tcp: connection reset by peer (simulated)")
	}
	if err != nil {
		_ = response.Body.Close()
		return nil, fault, err
	}
	if w, ok := response.Body.(*watcher); !ok {
		if d := c.ahead(); d != 0 {
			text, _ := io.ReadAll(response.Body) // it is in memory
			response.Body = io.NopCloser(bytes.NewReader(shifted(text, -d)))
		}
	} else if fault.CutAfter > 0 {
		w.timers = append(w.timers, time.AfterFunc(fault.CutAfter, w.end))
	}
	return response, fault, nil
}

type statusError struct{ status *metav1.Status }

func (e statusError) Error() string         { return e.status.Message }
func (e statusError) Status() metav1.Status { return *e.status }

// Call is one request in the trace.
type Call struct {
	At      time.Time
	Took    time.Duration
	Request *Request
	Query   string
	Code    int
	Err     error
	Fault   string
	// Handled: the server carried it out, although the client may have got an error instead of the answer.
	Handled bool
}

func (c Call) String() string {
	text := fmt.Sprintf("%s %-14s %-6s %s", c.At.UTC().Format("15:04:05.000"), c.Request.Client, c.Request.Method, c.Request.Path)
	if c.Query != "" {
		text += "?" + c.Query
	}
	if c.Err != nil {
		text += " → " + c.Err.Error()
	} else {
		text += fmt.Sprint(" → ", c.Code)
	}
	if c.Took > 0 {
		text += " after " + c.Took.String()
	}
	if c.Fault != "" {
		text += " [" + c.Fault + "]"
	}
	return text
}

// flood is the number of requests of one source within a minute that Server.Flooded reports.
const flood = 2000

// mostCalls is the number of calls that a trace keeps.
const mostCalls = 100_000

// Trace holds the requests that the server got.
type Trace struct {
	mu    sync.Mutex
	calls []Call
	rates map[rate]int
	none  bool
}

// rate counts the lists and watches of one client for one kind, and its writes of one object, within one minute.
type rate struct {
	client, source string
	minute         int64
}

func (t *Trace) add(c Call) (n int) {
	c.Request.Body = nil
	c.Request.client, c.Request.ctx = nil, nil
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rates == nil {
		t.rates = map[rate]int{}
	}
	if q := c.Request; q.Verb == "watch" || q.Verb == "list" && q.Query.Get("continue") == "" || q.Name != "" && q.Writes() {
		r := rate{q.Client, q.Verb + " " + q.Path, c.At.Unix() / 60}
		t.rates[r]++
		n = t.rates[r]
	}
	if len(t.calls) < mostCalls && !t.none {
		t.calls = append(t.calls, c)
	}
	return n
}

// Calls returns the requests in the order in which they ended.
func (s *Server) Calls() []Call {
	s.trace.mu.Lock()
	defer s.trace.mu.Unlock()
	return s.trace.calls
}

// Rate is the largest number of requests of one source within one minute.
type Rate struct {
	Client, Source string
	Requests       int
}

// Rates returns the rates of lists, of watches and of writes of existing objects: of each client, and each path.
func (s *Server) Rates() (out []Rate) {
	s.trace.mu.Lock()
	defer s.trace.mu.Unlock()
	most := map[Rate]int{}
	for r, count := range s.trace.rates {
		id := Rate{Client: r.client, Source: r.source}
		most[id] = max(most[id], count)
	}
	for r, n := range most {
		r.Requests = n
		out = append(out, r)
	}
	return out
}
