package dashboard

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/wildcard"
)

// answerFor bounds the time for one answer of the API.
const answerFor = 30 * time.Second

// badRequest is a mistake in the client's request.
type badRequest struct{ error }

// errReading is the error while not all reports have been read, so that an answer would be wrong.
var errReading = errors.New("the reports are still being read: try again in a few seconds")

// state is the state of the dashboard for the page.
type state struct {
	User    string `json:"user,omitempty"` // the owner of the token
	Reports int    `json:"reports"`        // in the cluster, whether shown or not
	// Full: there is no room for all reports, and the newest ones are missing.
	Full bool `json:"full,omitempty"`
	// Unasked is the number of namespaces that are left out because there are too many to check each.
	Unasked int `json:"unasked,omitempty"`
	// ClusterScoped and AllNamespaces report whether everything is shown.
	ClusterScoped bool      `json:"clusterScoped"`
	AllNamespaces bool      `json:"allNamespaces"`
	Since         time.Time `json:"since"` // the beginning of the trend
	// Decisions and Impact: the dashboard has these pages.
	Decisions bool `json:"decisions,omitempty"`
	Impact    bool `json:"impact,omitempty"`
	// Exceptions: the dashboard has this page.
	Exceptions bool `json:"exceptions,omitempty"`
}

// sampleJSON is a point of the trend.
type sampleJSON struct {
	Time time.Time `json:"time"`
	compliance.Counts
}

type contextKey struct{}

// api returns the handler of the page's requests.
func (d *Dashboard) api() http.Handler {
	mux := http.NewServeMux()
	for pattern, answer := range map[string]func(*http.Request) (any, error){
		"GET /api/v1/state":   d.answerState,
		"GET /api/v1/report":  d.answerReport,
		"GET /api/v1/trend":   d.answerTrend,
		"GET /api/v1/results": d.answerDetails,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { d.answer(w, r, answer) })
	}
	if d.o.Decisions != nil {
		mux.HandleFunc("GET /api/v1/decisions", d.answerDecisions)
	}
	if d.listsExceptions() {
		mux.HandleFunc("GET /api/v1/exceptions", func(w http.ResponseWriter, r *http.Request) { d.answer(w, r, d.answerExceptions) })
	}
	if d.evaluates() {
		mux.HandleFunc("GET /api/v1/policies", func(w http.ResponseWriter, r *http.Request) { d.answer(w, r, d.answerPolicies) })
		mux.HandleFunc("POST "+impactPath, d.answerImpact)
	}
	return mux
}

// answer authenticates the client, and writes the result of f.
func (d *Dashboard) answer(w http.ResponseWriter, r *http.Request, f func(*http.Request) (any, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), answerFor)
	defer cancel()
	one, err := d.sessions.of(ctx, bearer(r))
	if err != nil {
		d.fail(w, r, err)
		return
	}
	if !d.complete.Load() {
		d.fail(w, r, errReading)
		return
	}
	namespaces := d.index.namespaces()
	if asked := r.URL.Query()["namespace"]; len(asked) > 0 {
		namespaces = slices.DeleteFunc(namespaces, func(ns string) bool { return !wildcard.MatchAny(asked, ns) })
	}
	v, err := d.sessions.view(ctx, one, namespaces)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	body, err := d.work(r.WithContext(context.WithValue(ctx, contextKey{}, v)), f)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	writeJSON(w, r, http.StatusOK, body)
}

// work waits for a place and computes an answer. The answer is written without a place, since the client may be slow.
func (d *Dashboard) work(r *http.Request, f func(*http.Request) (any, error)) (any, error) {
	select {
	case d.answers <- struct{}{}:
		defer func() { <-d.answers }()
		return f(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// bearer returns the token of a request; empty without one.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// fail answers with an error. Errors of the API server go to the log, not to the client.
func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, text := http.StatusServiceUnavailable, err.Error()
	var bad badRequest
	var wrong mistaken
	switch {
	case errors.As(err, &bad):
		status = http.StatusBadRequest
	case errors.As(err, &wrong):
		writeJSON(w, r, http.StatusUnprocessableEntity, map[string]any{"error": text, "mistakes": wrong.mistakes})
		return
	case errors.Is(err, errBusy):
		status = http.StatusTooManyRequests
		w.Header().Set("Retry-After", "5")
	case errors.Is(err, errSlow):
	case errors.Is(err, errNoToken), errors.Is(err, errToken):
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", `Bearer realm="Ephor"`)
	case errors.Is(err, errRate):
		status = http.StatusTooManyRequests
		w.Header().Set("Retry-After", "1")
	case errors.Is(err, errReading):
		w.Header().Set("Retry-After", "2")
	default:
		if r.Context().Err() == nil {
			// An error of the API server may contain the request's token.
			words := err.Error()
			if token := bearer(r); token != "" {
				words = strings.ReplaceAll(words, token, "(token)")
			}
			d.o.Log.Warn("the dashboard cannot answer", "path", r.URL.Path, "error", words)
		}
		text = "the API server did not answer"
		if errors.Is(err, errStore) {
			text = errStore.Error()
		}
		text += ": the log of the reports controller has the reason"
	}
	writeJSON(w, r, status, map[string]string{"error": text})
}

// query returns the query of a request, limited to what its user may see.
func (d *Dashboard) query(r *http.Request, more ...string) (*query, error) {
	q, err := parseQuery(r.URL.Query(), more...)
	if err != nil {
		return nil, badRequest{err}
	}
	q.sees = viewOf(r).sees
	return q, nil
}

func viewOf(r *http.Request) *view { return r.Context().Value(contextKey{}).(*view) }

func (d *Dashboard) answerState(r *http.Request) (any, error) {
	v := viewOf(r)
	reports, full := d.index.state()
	return state{
		User: v.user, Reports: reports, Full: full, Unasked: v.unasked, ClusterScoped: v.allowed[clusterScoped], AllNamespaces: v.all, Since: d.started,
		Decisions: d.o.Decisions != nil, Impact: d.evaluates(), Exceptions: d.listsExceptions(),
	}, nil
}

// answerReport returns the result of `ephor report -o json`, with the rights of the client.
func (d *Dashboard) answerReport(r *http.Request) (any, error) {
	q, err := d.query(r)
	if err != nil {
		return nil, err
	}
	return d.index.summary(q), nil
}

// answerTrend returns the numbers of results over time and now, for namespaces and for cluster-scoped objects.
func (d *Dashboard) answerTrend(r *http.Request) (any, error) {
	q, err := d.query(r)
	if err != nil {
		return nil, err
	}
	for name := range r.URL.Query() {
		if name != "namespace" && name != "scope" {
			return nil, badRequest{errors.New("the trend has only the parameters namespace and scope")}
		}
	}
	wanted := func(namespace string) bool {
		about := compliance.Result{Resource: compliance.Resource{Namespace: namespace}}
		return q.sees(namespace) && q.wants(&about) && (!q.clusterOnly || namespace == "")
	}
	samples := []sampleJSON{}
	for _, s := range d.trend.sum(wanted) {
		samples = append(samples, sampleJSON{s.at, s.counts.counts()})
	}
	current := sample{at: d.o.Now()}
	for ns, t := range d.index.totals() {
		if wanted(ns) {
			for i, n := range t {
				current.counts[i] += n
			}
		}
	}
	return map[string]any{"samples": append(samples, sampleJSON{current.at, current.counts.counts()})}, nil
}

// parsePosition parses the parameter after.
func parsePosition(text string) (*position, error) {
	if text == "" {
		return nil, nil
	}
	p := &position{}
	if err := json.Unmarshal([]byte(text), p); err != nil {
		return nil, badRequest{errors.New("the parameter after is not the value of next in an answer")}
	}
	return p, nil
}

// worthZipping is the minimum length of compressed answers, in bytes.
const worthZipping = 4 << 10

// writeJSON writes an answer. No text in it can end a script or open a tag, even if it is read as HTML: encoding/json escapes <, > and &.
func writeJSON(w http.ResponseWriter, r *http.Request, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written"}`)
	}
	text = append(text, '\n')
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Vary", "Accept-Encoding, Authorization")
	if len(text) > worthZipping && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		var small bytes.Buffer
		z := gzip.NewWriter(&small)
		_, _ = z.Write(text)
		_ = z.Close()
		h.Set("Content-Encoding", "gzip")
		text = small.Bytes()
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
