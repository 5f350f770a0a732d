package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/wildcard"
)

// The numbers of decisions in one answer.
const (
	pageDecisions    = 100
	maxPageDecisions = 1000
)

// errStore is the error for a store that cannot be read.
var errStore = errors.New("the store of decisions could not be read")

// decisions is an answer about decisions.
type decisions struct {
	decision.Page
	// Words are the records in words, if the request has a UID.
	Words []decision.Explanation `json:"words,omitempty"`
	// Unasked is the number of namespaces that are left out because there are too many to check each.
	Unasked int `json:"unasked,omitempty"`
}

// answerDecisions answers a request for decisions, with those that the user may see. The right to list the reports of a namespace includes
// the right to see its decisions.
func (d *Dashboard) answerDecisions(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerFor)
	defer cancel()
	r = r.WithContext(ctx)
	one, err := d.sessions.of(ctx, bearer(r))
	if err != nil {
		d.fail(w, r, err)
		return
	}
	q, limit, err := decisionQuery(r.URL.Query())
	if err != nil {
		d.fail(w, r, badRequest{err})
		return
	}
	body, err := d.work(r, func(r *http.Request) (any, error) {
		v, err := d.seeing(ctx, one, q)
		if err != nil {
			return nil, err
		}
		page, err := d.o.Decisions.Page(ctx, q, r.URL.Query().Get("after"), limit)
		if errors.Is(err, decision.ErrPosition) {
			return nil, badRequest{err}
		}
		if err != nil {
			return nil, errors.Join(errStore, err)
		}
		if err := d.withhold(ctx, one, page.Records); err != nil {
			return nil, err
		}
		out := decisions{Page: page, Unasked: v.unasked}
		if q.UID != "" {
			for i := range page.Records {
				out.Words = append(out.Words, page.Records[i].Explain())
			}
		}
		return out, nil
	})
	if err != nil {
		d.fail(w, r, err)
		return
	}
	writeJSON(w, r, http.StatusOK, body)
}

// seeing limits a query to the decisions that the user of a session may see.
func (d *Dashboard) seeing(ctx context.Context, one *session, q *decision.Query) (*view, error) {
	namespaces, err := d.o.Decisions.Namespaces(ctx)
	if err != nil {
		return nil, errors.Join(errStore, err)
	}
	if len(q.Namespaces) > 0 {
		namespaces = slices.DeleteFunc(namespaces, func(ns string) bool { return !wildcard.MatchAny(q.Namespaces, ns) })
	}
	v, err := d.sessions.view(ctx, one, namespaces)
	if err != nil {
		return nil, err
	}
	q.Sees, q.Cluster = v.sees, d.o.Cluster
	return v, nil
}

// decisionQuery parses the parameters of a request for decisions.
func decisionQuery(v url.Values) (q *decision.Query, limit int, err error) {
	q, limit = &decision.Query{}, pageDecisions
	for name, values := range v {
		switch one := values[0]; name {
		case "policy":
			q.Policies = values
		case "namespace":
			q.Namespaces = values
		case "user":
			q.Users = values
		case "kind":
			q.Kinds = values
		case "uid":
			q.UID = one
		case "requests":
			if one != "true" && one != "false" {
				return nil, 0, errors.New("requests is true or false")
			}
			q.Requests = one == "true"
		case "order":
			if one != "newest" && one != "oldest" {
				return nil, 0, errors.New("order is newest or oldest")
			}
			q.Oldest = one == "oldest"
		case "after":
		case "verdict":
			for _, text := range values {
				if !slices.Contains(decision.Verdicts, decision.Verdict(text)) {
					return nil, 0, fmt.Errorf("%q is not a verdict", text)
				}
				q.Verdicts = append(q.Verdicts, decision.Verdict(text))
			}
		case "since", "until":
			at, err := time.Parse(time.RFC3339Nano, one)
			if err != nil {
				return nil, 0, fmt.Errorf("%s is not a time such as 2006-01-02T15:04:05Z", name)
			}
			if name == "since" {
				q.Since = at
			} else {
				q.Until = at
			}
		case "limit":
			if limit, err = strconv.Atoi(one); err != nil || limit < 1 || limit > maxPageDecisions {
				return nil, 0, fmt.Errorf("limit is not a number from 1 to %d", maxPageDecisions)
			}
		default:
			return nil, 0, fmt.Errorf("there is no parameter %q", name)
		}
	}
	return q, limit, nil
}
