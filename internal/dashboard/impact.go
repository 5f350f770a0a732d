package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/cluster"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/rollout"
	"ephor.invalid/ephor/internal/wildcard"
	"ephor.invalid/ephor/internal/world/fixed"
)

// The limits for an evaluation of policies.
const (
	maxImpactBody  = 256 << 10 // bytes of a request, with the policies
	maxImpacts     = 2         // at the same time; each user may have only one
	maxEvaluated   = 20_000    // requests or objects in one evaluation
	maxEvaluatedAt = 32 << 20  // bytes of recorded requests in memory, compressed
	evaluateFor    = 15 * time.Second
	maxExamples    = 20 // of each kind
	usualExamples  = 5
	maxOwnerReads  = 200
	maxOwnerLabel  = 320
	maxPatterns    = 50
)

// The sources of requests.
const (
	onRequests = "requests"
	onObjects  = "objects"
)

// evaluation is the request of a client to evaluate policies.
type evaluation struct {
	// Policies are YAML or JSON: policies, with their bindings and exceptions.
	Policies string `json:"policies"`
	// On selects what they are evaluated on: recorded requests, or existing objects.
	On string `json:"on"`
	// Since is the time of the first recorded request; zero for all.
	Since time.Time `json:"since"`
	// Namespaces selects namespaces; for recorded requests they may contain wildcards.
	Namespaces []string `json:"namespaces"`
	OwnerLabel string   `json:"ownerLabel"`
	Examples   *int     `json:"examples"`
}

var (
	errBusy = errors.New("other policies are being evaluated: try again in a few seconds")
	errSlow = errors.New("the evaluation took too long: choose a namespace, or a shorter time")
)

// check returns the mistake in a client's request.
func (e *evaluation) check(d *Dashboard) error {
	switch {
	case e.On != onRequests && e.On != onObjects:
		return fmt.Errorf("on: %q is neither %s nor %s", e.On, onRequests, onObjects)
	case e.On == onRequests && d.o.Decisions == nil:
		return errors.New("no requests are recorded: --decisionsStore of the reports controller and --decisionsRequests of the admission controller keep them")
	case e.On == onObjects && d.o.Tokens == nil:
		return errors.New("objects are read with the rights of a user: with --dashboardAddress, the dashboard requires tokens")
	case e.Examples != nil && (*e.Examples < 0 || *e.Examples > maxExamples):
		return fmt.Errorf("examples is not a number from 0 to %d", maxExamples)
	case len(e.OwnerLabel) > maxOwnerLabel, len(e.Namespaces) > maxPatterns:
		return errors.New("the owner label, or the list of namespaces, is too long")
	case e.On == onObjects && slices.ContainsFunc(e.Namespaces, func(ns string) bool { return len(content.IsPathSegmentName(ns)) > 0 || ns == "" }):
		return errors.New("namespaces: that is not the name of a namespace")
	case e.On == onObjects && slices.ContainsFunc(e.Namespaces, wildcard.Has):
		return errors.New("namespaces: wildcards are for recorded requests")
	}
	return nil
}

// evaluating takes a place for an evaluation by a user; done frees it. ok is false if there is no place.
func (d *Dashboard) evaluating(user string) (done func(), ok bool) {
	d.impactMu.Lock()
	defer d.impactMu.Unlock()
	if d.impacts[user] || len(d.impacts) >= maxImpacts {
		return nil, false
	}
	d.impacts[user] = true
	return func() {
		d.impactMu.Lock()
		defer d.impactMu.Unlock()
		delete(d.impacts, user)
	}, true
}

// answerImpact evaluates policies on what the user may read, and answers with the report of `ephor impact -o json`.
func (d *Dashboard) answerImpact(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerFor)
	defer cancel()
	token := bearer(r)
	one, err := d.sessions.of(ctx, token)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	var e evaluation
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxImpactBody))
	body.DisallowUnknownFields()
	if err := body.Decode(&e); err != nil {
		if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
			err = fmt.Errorf("the policies are longer than %d bytes", maxImpactBody)
		}
		d.fail(w, r, badRequest{err})
		return
	}
	if err := e.check(d); err != nil {
		d.fail(w, r, badRequest{err})
		return
	}
	reading := d.sessions.reading(one)
	done, ok := d.evaluating(reading.user.Name)
	if !ok {
		d.fail(w, r, errBusy)
		return
	}
	defer done()
	report, err := d.evaluate(ctx, one, reading, token, &e)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil:
		err = errSlow
		fallthrough
	case err != nil:
		d.fail(w, r, err)
		return
	}
	writeJSON(w, r, http.StatusOK, report)
}

// bounds count the objects or requests that an evaluation reads.
type bounds struct {
	until  context.Context
	left   int
	ended  bool // the limit was reached
	denied int  // number of lists that the user may not read
}

// next reports whether one more may be read.
func (b *bounds) next() bool {
	if b.left == 0 || b.until.Err() != nil {
		b.ended = true
		return false
	}
	b.left--
	return true
}

// evaluate evaluates policies with the rights of a user.
func (d *Dashboard) evaluate(ctx context.Context, one *session, reading *reading, token string, e *evaluation) (*impact.Report, error) {
	set := d.compile(e.Policies)
	if len(set.mistakes) > 0 {
		return nil, mistaken{"there are mistakes in the policies", set.mistakes}
	}
	if len(set.programs) == 0 {
		return nil, mistaken{"there is no policy to evaluate", nil}
	}
	c, err := d.clusterOf(token)
	if err != nil {
		return nil, err
	}
	v, err := d.sessions.view(ctx, one, d.index.namespaces())
	if err != nil {
		return nil, err
	}
	visible := d.visible(v)
	labels := func(ctx context.Context, namespace string) (map[string]string, error) {
		labels, err := c.NamespaceLabels(ctx, namespace)
		if err != nil {
			err = fmt.Errorf("the labels of namespace %s: %w", namespace, err)
		}
		return labels, err
	}
	facts := impact.Facts{
		Label: e.OwnerLabel, Labels: labels, Objects: e.On == onObjects, Deferred: impact.Deferred(set.programs),
		NoLookups: "the lookups of rules: the dashboard looks up only the labels of namespaces",
	}
	if d.o.Tokens != nil {
		facts.Owners = &rollout.Owners{Read: c.Meta, Label: e.OwnerLabel, Limit: maxOwnerReads}
	}
	lack := func(n int, what string) {
		if n > 0 {
			facts.Lacks = append(facts.Lacks, impact.Lack{What: what, Requests: n})
		}
	}
	exceptions, errs := c.Exceptions(ctx, cluster.Where{Visible: visible}, d.o.Now())
	n, err := denied(errs)
	if err != nil {
		return nil, err
	}
	exceptions = d.inForce(exceptions)
	lack(n, "the effect of exceptions that you may not list")
	current, _, errs, err := c.InForce(ctx, set.programs, d.compiling())
	if err != nil {
		return nil, err
	}
	lack(len(errs), "the effect of policies in force that you may not read")
	joined := append(set.exceptions, exceptions...)
	options := impact.Options{
		Kinds: impact.NewKinds(d.o.Discovery), Root: fixed.New(fixed.Values{Now: d.o.Now}), Labels: labels, Families: d.o.Families,
	}
	if d.o.Settings != nil {
		options.Settings = d.o.Settings()
	}
	after := impact.NewReplica(catalog.Join(set.programs, joined), options)
	var before *impact.Replica
	if len(current) > 0 {
		before = impact.NewReplica(catalog.Join(current, joined), options)
	}
	examples := usualExamples
	if e.Examples != nil {
		examples = *e.Examples
	}
	collector := impact.NewCollector(after, before, examples)
	until, stop := context.WithTimeout(ctx, evaluateFor)
	defer stop()
	limit := &bounds{until: until, left: maxEvaluated}
	var records iter.Seq[impact.Record]
	if e.On == onObjects {
		kinds, err := c.Kinds(slices.Concat(set.programs, current))
		if err != nil {
			return nil, err
		}
		records = limit.within(c.Objects(ctx, kinds, cluster.Where{Namespaces: e.Namespaces, Visible: visible}))
	} else {
		recorded, unasked, err := d.recorded(ctx, one, reading, limit, &decision.Query{Since: e.Since, Namespaces: e.Namespaces})
		if err != nil {
			return nil, err
		}
		lack(unasked, "the requests in namespaces that are left out, since there are too many to check your rights for each: choose one")
		records = impact.Decisions(e.Since, slices.Values(recorded))
	}
	if err := impact.Run(ctx, records, after, before, collector); err != nil {
		return nil, err
	}
	lack(limit.denied, "the results for kinds of objects that you may not list everywhere")
	lack(reading.denied, "the results for requests with objects that you may not list")
	lack(reading.unasked, "the results for requests that are left out, since there are too many kinds and namespaces to check your rights for each: choose a namespace")
	if limit.ended {
		facts.Lacks = append(facts.Lacks, impact.Lack{What: fmt.Sprintf("the results for further requests: the evaluation ends after %d requests or %s; choose a namespace, or a shorter time", maxEvaluated-limit.left, evaluateFor)})
	}
	return collector.Report(ctx, facts), nil
}

// visible returns the namespaces that a view shows, in order.
func (d *Dashboard) visible(v *view) []string {
	out := slices.DeleteFunc(d.index.namespaces(), func(ns string) bool { return ns == "" || !v.sees(ns) })
	return out[:min(len(out), maxNamespaces)]
}

// recorded returns the recorded requests that the user may read, sorted by time: the newest ones within the limits. unasked is the
// number of namespaces that are left out.
func (d *Dashboard) recorded(ctx context.Context, one *session, reading *reading, limit *bounds, q *decision.Query) (out []impact.Decided, unasked int, err error) {
	q.Requests = true
	if !q.Since.IsZero() {
		q.Since = q.Since.Add(-time.Minute) // so that all reviews of a request are seen
	}
	v, err := d.seeing(ctx, one, q)
	if err != nil {
		return nil, 0, err
	}
	size := 0
	for after := ""; ; {
		page, err := d.o.Decisions.Page(ctx, q, after, maxPageDecisions)
		if err != nil {
			return nil, 0, errors.Join(errStore, err)
		}
		for i := range page.Records {
			record := &page.Records[i]
			if record.Request != nil {
				allowed, err := reading.may(ctx, record)
				if err != nil {
					return nil, 0, err
				}
				if !allowed {
					continue
				}
				if err := reading.withholdLookups(ctx, record); err != nil {
					return nil, 0, err
				}
				for _, b := range record.Request.Bodies() {
					size += len(b.Deflated)
				}
			}
			if size > maxEvaluatedAt || !limit.next() {
				limit.ended = true
				break
			}
			out = append(out, impact.Decided{At: "UID " + record.UID, Record: record})
		}
		if after = page.Next; after == "" || limit.ended {
			slices.Reverse(out)
			return out, v.unasked, nil
		}
	}
}
