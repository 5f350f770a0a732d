package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/http1"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/policyreview"
	"ephor.invalid/ephor/internal/secretpath"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/share"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/taped"
)

// Cluster looks up information that a review does not contain. Its methods are safe for concurrent use. An error means that the lookup
// failed, never "none".
type Cluster interface {
	// Roles returns the roles and cluster roles of the user for requests in the namespace.
	Roles(ctx context.Context, user *policy.User, namespace string) (policy.Roles, error)
	// NamespaceLabels returns the labels of a namespace.
	NamespaceLabels(ctx context.Context, namespace string) (map[string]string, error)
	policyreview.Discovery
}

// Options are the limits and names of a Server.
type Options struct {
	// Families describes the kinds of policies; nil for Ephor's own.
	Families *compile.Registry
	// Namespace is the namespace in which the process runs.
	Namespace string
	// Timeout is the time for a review whose URL has no timeout.
	Timeout time.Duration
	// AuditWorkers and AuditCapacity bound the work after the answers; values below 1 count as 1.
	AuditWorkers, AuditCapacity int
	// DrainDelay is how long the server continues to answer after it is stopped, until load balancers notice that it is not ready. Each
	// answer then ends its connection.
	DrainDelay time.Duration
	// Review are the settings that reviews of policies depend on.
	Review policyreview.Options
	// Clients decides which clients the server answers.
	Clients Clients
	// Paths decides which paths the server answers; nil for all plain paths.
	Paths Paths
	// Failed is called if a review was not answered in time, or its connection ended before: the API server may have shown its URL to the
	// requester. It must be quick; nil for none.
	Failed func()
	// ProtectManaged: only accounts of Namespace may change objects that are labelled as managed by kyverno.
	ProtectManaged bool
	// FixedWebhooks: the webhooks do not follow the policies (--autoUpdateWebhooks=false). A policy that would have its own webhook only
	// because of its timeout has none then, so the shared webhooks evaluate it.
	FixedWebhooks bool
	// DumpPayload logs reviews and answers at level Debug.
	DumpPayload bool
	// Deferred stores the work of requests; nil drops such work.
	Deferred Deferred
	// StoredUID returns the UID of the object that the API server has stored now; empty if there is none, or if this process may not read it.
	// nil if the work of requests needs no check.
	StoredUID func(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (string, error)
	// Observer observes the server; nil for none.
	Observer Observer
	// Report receives the results of each evaluated request, except dry runs: for a denied request those from before the answer, for others
	// all, after the auditing rules. It must be quick; nil for none.
	Report func(req *policy.Request, results []policy.Result, refused bool)
	// Record receives each review that policies answered, after the answer and after the auditing rules. It must be quick; nil for none.
	Record func(decision.Review)
	// Lookups puts what the rules look up on the Tape of each request that Record receives.
	Lookups bool
	// Exceeded is called for policies that exceeded a budget, including in dry runs. It must be quick; nil for none.
	Exceeded func([]policy.Exceeded)
	// Eval evaluates policies; nil for engine.Eval.
	Eval func(context.Context, engine.Input) policy.Outcome
	Log  *slog.Logger
	Now  func() time.Time
}

// Server answers reviews.
type Server struct {
	Options
	routes   table
	snapshot func() *catalog.Snapshot
	settings *settings.Store
	root     world.Root
	cluster  Cluster
	review   *policyreview.Reviewer
	audits   *auditor
	// pace limits namespaced policies to their share of processor time; paceLater does so without waiting, since a wait would delay other
	// work.
	pace, paceLater func(*policy.Program) budget.Pacer
	// paceException charges what an exception costs to its namespace, unless an administrator named that namespace. Only requests of the same
	// namespace wait for it; paceExceptionLater never waits.
	paceException, paceExceptionLater func(*policy.Exception, *policy.Request) budget.Pacer
	shares                            *share.Shares
	gate                              gate
	lost                              func()              // failed, as a value
	large                             *semaphore.Weighted // bytes of large bodies
	evaluated                         largeReviews        // large reviews that are being evaluated

	synchronizing synchronizing

	ready    func() error
	open     atomic.Bool
	draining atomic.Bool
}

// New returns a Server. ready returns the reason why this process cannot serve yet, nil if it can.
func New(o Options, snapshot func() *catalog.Snapshot, s *settings.Store, root world.Root, cluster Cluster, ready func() error) *Server {
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	if o.Paths == nil {
		o.Paths = secretpath.Open{}
	}
	srv := &Server{Options: o, routes: routesOf(o.Families.Families()), snapshot: snapshot, settings: s, root: root, cluster: cluster, ready: ready}
	if o.Review.Settings == nil {
		o.Review.Settings = s.Load
	}
	srv.review = &policyreview.Reviewer{
		Options: o.Review, Families: o.Families, Discovery: cluster, Root: root, Programs: func() []*policy.Program { return snapshot().Programs() },
		Patience: policyreview.GrantPatience, Log: o.Log, Now: o.Now,
	}
	if o.FixedWebhooks {
		srv.routes = srv.routes.fixed()
	}
	srv.lost = srv.failed
	srv.gate.Clients, srv.large = o.Clients, semaphore.NewWeighted(largeBodies)
	srv.shares = share.New(runtime.GOMAXPROCS(0))
	srv.pace = func(p *policy.Program) budget.Pacer { return srv.shares.Pacer(p.Namespace, true) }
	srv.paceLater = func(p *policy.Program) budget.Pacer { return srv.shares.Pacer(p.Namespace, false) }
	srv.paceException = func(e *policy.Exception, req *policy.Request) budget.Pacer {
		return srv.exceptionPacer(e, e.Namespace == req.Namespace)
	}
	srv.paceExceptionLater = func(e *policy.Exception, _ *policy.Request) budget.Pacer { return srv.exceptionPacer(e, false) }
	srv.audits = newAuditor(srv, max(o.AuditWorkers, 1), max(o.AuditCapacity, 1))
	return srv
}

// exceptionPacer returns the pacer of what an exception costs; nil for the namespace that an administrator named for exceptions.
func (s *Server) exceptionPacer(e *policy.Exception, wait bool) budget.Pacer {
	if e.Namespace == s.Options.Review.Exceptions.Namespace {
		return nil
	}
	return s.shares.Pacer(e.Namespace, wait)
}

// Open allows evaluations. Before that, the server answers reviews with an error, so that failurePolicy decides: without its policies, it
// would admit every request.
func (s *Server) Open() { s.open.Store(true) }

// AuditsDropped returns the number of requests whose auditing rules were not evaluated because the queue was full.
func (s *Server) AuditsDropped() uint64 { return s.audits.dropped.Load() }

// lastWork bounds the time for the requests and audits that are left when the server ends.
const lastWork = 30 * time.Second

// Run serves TLS on l until ctx is done. Then it reports that it is not ready, and continues for the drain delay while each answer ends its
// connection. Finally it completes the requests in progress and the audit queue, and returns.
func (s *Server) Run(ctx context.Context, l net.Listener, getCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) error {
	handler := &http1.Handler{
		Handler: s.proved(s.Observer.HTTP(s)),
		Idle:    5 * time.Minute,
		Read:    30 * time.Second,
		Write:   10 * time.Second,
	}
	server := http1.Harden(&http.Server{
		Handler:      handler,
		TLSConfig:    s.Clients.serverTLS(getCertificate),
		ReadTimeout:  30 * time.Second,
		WriteTimeout: 40 * time.Second, // above the longest timeout of a webhook
		IdleTimeout:  5 * time.Minute,
		ErrorLog:     slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),      // failed handshakes of port scanners
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // no HTTP/2, see serverTLS
	})
	s.audits.start()
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(http1.Bound(l, http1.Limits{}), "", "") }()
	select {
	case err := <-served:
		stop, cancel := context.WithTimeout(context.Background(), lastWork)
		defer cancel()
		s.audits.stop(stop)
		return fmt.Errorf("admission server: %w", err)
	case <-ctx.Done():
	}
	s.draining.Store(true)
	s.Log.Info("draining", "delay", s.DrainDelay)
	time.Sleep(s.DrainDelay)
	stop, cancel := context.WithTimeout(context.Background(), lastWork)
	defer cancel()
	err := errors.Join(server.Shutdown(stop), handler.Shutdown(stop))
	if err != nil {
		err = errors.Join(fmt.Errorf("requests were still in flight: %w", err), server.Close())
	}
	s.audits.stop(stop)
	return err
}

// maxBody bounds the size of a review. The API server accepts objects of 3 MB, and a review holds two of them.
const maxBody = 16 << 20

// buffers holds the buffers of requests and answers. Values that outlive a request must not refer to them. Without them a review allocates
// 148 % of its bytes (BenchmarkPodSecurity: 50,902 instead of 34,492).
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 16<<10); return &b }}

// jsonType is the Content-Type of every answer, shared since header values are lists.
var jsonType = []string{"application/json; charset=utf-8"}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() {
		// The client must use another connection for its next request. A request on a closing connection fails, and the API server never
		// repeats a review.
		w.Header().Set("Connection", "close")
	}
	if r.Method == http.MethodGet {
		s.serveHealth(w, r)
		return
	}
	row := s.routes.find(r.URL.Path)
	if row == nil && r.Method == http.MethodPost && ofFamily(r.URL.Path) {
		row = &unserved
		s.Observer.Path(secretpath.Unserved)
	}
	switch {
	case row == nil:
		http.NotFound(w, r)
		return
	case !s.open.Load():
		http.Error(w, "the policies have not been read yet", http.StatusServiceUnavailable)
		return
	case r.Method != http.MethodPost:
		http.Error(w, "reviews are posted", http.StatusMethodNotAllowed)
		return
	case r.Header.Get("Content-Type") != "application/json":
		http.Error(w, "the Content-Type is not application/json", http.StatusUnsupportedMediaType)
		return
	}
	client, status, err := s.gate.check(r)
	if err != nil {
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, err.Error(), status)
		return
	}
	http1.Proved(r)
	failed := s.failing(r)
	http1.Watch(r, failed) // the API server shows the URL of a review that was cut off
	ctx := withTimeout(r.Context(), timeLeft(r.URL.RawQuery, s.Timeout))
	defer func() {
		if ctx.Err() != nil {
			failed()
		}
		ctx.end()
	}()
	buf := buffers.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= 1<<20 { // one large review must not stay in memory for ever
			buffers.Put(buf)
		}
		if v := recover(); v != nil {
			failed()
			s.Log.Error("a review panicked", "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
			http.Error(w, "internal error", http.StatusInternalServerError)
		}
	}()
	body, release, status, err := s.readBody(ctx, (*buf)[:cap(*buf)], r)
	defer release()
	if err != nil {
		failed() // the API server sends the whole body, unless its timeout is over
		http.Error(w, err.Error(), status)
		return
	}
	at := boundRoute{row, s.snapshot()}
	reads := at.reads
	if s.DumpPayload {
		reads = nil
	}
	req, err := decodeReview(body, reads)
	switch {
	case errors.Is(err, errNoRequest):
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case err != nil:
		http.Error(w, value.Message("the AdmissionReview cannot be read: "+err.Error()), http.StatusExpectationFailed)
		return
	}
	if req.RequestGVK.Kind == "" || req.Operation == "" {
		// Without them the request would match no rule, and be admitted.
		http.Error(w, "the AdmissionReview names no kind or no operation", http.StatusBadRequest)
		return
	}
	if !client.covers(req.GVR.Group) {
		http.Error(w, errTokenOfAnother.Error(), http.StatusForbidden)
		return
	}
	if len(body) > smallBody {
		release, err := s.evaluated.hold(req.Namespace, len(body))
		if err != nil {
			failed()
			http.Error(w, err.Error(), http.StatusTooManyRequests)
			return
		}
		defer release()
	}
	if s.Lookups && s.Record != nil && at.Stages != 0 {
		req.Tape = taped.New()
	}
	began := s.Now()
	res, err := row.handle(s, ctx, req, at)
	if err != nil {
		s.Log.Error("a review cannot be answered", "path", r.URL.Path, "error", value.Message(err.Error()))
		http.Error(w, value.Message(err.Error()), http.StatusInternalServerError)
		return
	}
	took := s.Now().Sub(began)
	s.Observer.Reviewed(ctx, req, row.webhook(), policy.Decision{Allowed: res.allowed, Message: res.message, Warnings: res.warnings}, took)
	res.uid = req.UID
	if s.Record != nil && s.Review.Exceptions.On() && len(res.results) > 0 {
		res.refusedAs = req.UID
	}
	s.dump(ctx, r.URL.Path, req, &res)
	*buf = res.append((*buf)[:0])
	w.Header()["Content-Type"] = jsonType
	_, _ = w.Write(*buf)
	s.after(ctx, req, at, &res, began, took, len(body))
}

// labelsTimeout is the time for the labels of a namespace after an answer.
const labelsTimeout = 2 * time.Second

// after passes the auditing rules to the queue, and the review to Record, with their results if there are such rules.
func (s *Server) after(ctx context.Context, req *policy.Request, at boundRoute, res *response, began time.Time, took time.Duration, body int) {
	var review *decision.Review
	if req.Tape != nil && (len(res.results) > 0 || res.later != nil) {
		// Webhooks and other policies select requests by these labels. They are rarely read from the API server.
		bounded, cancel := context.WithTimeout(s.Observer.Later(ctx), labelsTimeout)
		_, _ = req.NamespaceLabels(bounded) // an error is on the tape
		cancel()
	}
	if s.Record != nil && at.Stages != 0 {
		review = &decision.Review{
			Request: req, Webhook: at.webhook(), Decision: policy.Decision{Allowed: res.allowed, Message: res.message, Warnings: res.warnings},
			Patch: res.patch, Results: res.results, At: began, Took: took, Policies: at.policies.Hash(),
		}
	}
	switch {
	case res.later != nil:
		res.later.review, res.later.body = review, body
		s.audits.add(*res.later)
	case review != nil:
		s.Record(*review)
	}
}

// readBody reads the whole body through buf; the status is that of the error. The caller calls release when it no longer needs the body or
// values decoded from it.
func (s *Server) readBody(ctx context.Context, buf []byte, r *http.Request) (_ string, release func(), status int, err error) {
	release = func() {}
	n := r.ContentLength
	if n > maxBody {
		return "", release, http.StatusRequestEntityTooLarge, errTooLong
	}
	reserved := n > smallBody
	if reserved {
		if release, err = s.reserve(ctx, n); err != nil {
			return "", func() {}, http.StatusTooManyRequests, err
		}
	}
	var text strings.Builder // decoded values are slices of it
	text.Grow(int(max(n, 0)))
	for body := http.MaxBytesReader(nil, r.Body, maxBody); ; {
		if text.Len() > smallBody && !reserved {
			reserved = true // its length is unknown
			if release, err = s.reserve(ctx, maxBody); err != nil {
				return "", func() {}, http.StatusTooManyRequests, err
			}
		}
		k, err := body.Read(buf)
		text.Write(buf[:k])
		switch tooLong := (*http.MaxBytesError)(nil); {
		case err == io.EOF && text.Len() == 0:
			return "", release, http.StatusBadRequest, errors.New("the body is empty")
		case err == io.EOF:
			return text.String(), release, 0, nil
		case errors.As(err, &tooLong):
			return "", release, http.StatusRequestEntityTooLarge, errTooLong
		case err != nil:
			return "", release, http.StatusBadRequest, err
		}
	}
}

var errTooLong = fmt.Errorf("the review is longer than %d bytes", maxBody)

// longestWait is the longest timeout of a webhook.
const longestWait = 30 * time.Second

// timeLeft returns the time for a review: the timeout in the URL (`timeout=10s`), less a margin for the network, since the API server
// ignores a late answer. No API server waits longer than longestWait, whatever a client says.
func timeLeft(query string, otherwise time.Duration) time.Duration {
	t := otherwise
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if v, ok := strings.CutPrefix(pair, "timeout="); ok {
			if d, err := time.ParseDuration(v); err == nil && d > 0 {
				t = min(d, longestWait)
			}
		}
	}
	return t - min(max(t/10, 50*time.Millisecond), 500*time.Millisecond, t/2)
}

// Ready returns the reason why this process may not receive reviews; nil if it may.
func (s *Server) Ready() error {
	if s.draining.Load() {
		return errors.New("the process is stopping")
	}
	return s.ready()
}

func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/health/liveness":
	case "/health/readiness":
		if err := s.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	default:
		http.NotFound(w, r)
	}
}
