package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/decision"
)

// kept are decisions in memory, newest first.
type kept []decision.Record

func (k kept) Namespaces(context.Context) (out []string, err error) {
	for _, r := range k {
		if r.Namespace != "" && !slices.Contains(out, r.Namespace) {
			out = append(out, r.Namespace)
		}
	}
	return out, nil
}

func (k kept) Page(_ context.Context, q *decision.Query, after string, limit int) (page decision.Page, err error) {
	begin := 0
	if after != "" {
		if _, err := fmt.Sscan(after, &begin); err != nil {
			return page, fmt.Errorf("%w: %s", decision.ErrPosition, after)
		}
	}
	for i := begin; i < len(k); i++ {
		if len(page.Records) == limit {
			page.Next = fmt.Sprint(i)
			break
		}
		if q.Selects(&k[i]) {
			page.Records = append(page.Records, k[i])
		}
	}
	return page, nil
}

// Each user sees the decisions in the namespaces whose reports the user may list, and only of this cluster.
func TestDecisions(t *testing.T) {
	p := newPage(true)
	if got := p.do("GET", "/api/v1/decisions", "all").StatusCode; got != 404 {
		t.Errorf("without a store: %d", got)
	}
	record := func(uid, cluster, ns, user string, verdict decision.Verdict) decision.Record {
		return decision.Record{Schema: decision.Schema, Time: p.clock, UID: uid, Cluster: cluster, Namespace: ns, User: user, Kind: "Pod", Verdict: verdict, Rules: []decision.Result{{Policy: "p"}}}
	}
	o := p.o
	o.Cluster, o.Decisions = "east", kept{
		record("1", "east", "a", "jane", decision.Refused), record("2", "east", "b", "jane", decision.Passed), record("3", "east", "", "root", decision.Changed),
		record("4", "east", "only-here", "jane", decision.Refused), record("5", "west", "a", "jane", decision.Refused),
	}
	p.Dashboard = New(o) // this dashboard has not read any report yet
	ask := func(token, query string) (status int, uids, next string) {
		resp := p.do("GET", "/api/v1/decisions"+query, token)
		var page decision.Page
		if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Records {
			uids += r.UID
		}
		return resp.StatusCode, uids, page.Next
	}
	since := p.clock.Add(time.Second).UTC().Format(time.RFC3339)
	for _, c := range []struct {
		token, query string
		status       int
		want         string
	}{
		{"all", "", 200, "1234"}, {"namespaces", "", 200, "124"}, {"a", "", 200, "1"}, {"cluster", "", 200, "3"}, {"none", "", 200, ""}, {"", "", 401, ""}, {"nobody", "", 401, ""},
		{"all", "?namespace=b&namespace=only-*", 200, "24"}, {"all", "?verdict=refused&user=j*", 200, "14"}, {"all", "?uid=3", 200, "3"}, {"a", "?uid=3", 200, ""},
		{"all", "?kind=Deployment", 200, ""}, {"all", "?policy=p&kind=Pod", 200, "1234"}, {"all", "?since=" + since, 200, ""}, {"all", "?until=" + since, 200, "1234"},
		{"all", "?verdict=no", 400, ""}, {"all", "?since=yesterday", 400, ""}, {"all", "?limit=0", 400, ""}, {"all", "?limit=100000", 400, ""}, {"all", "?after=x", 400, ""}, {"all", "?cluster=west", 400, ""},
	} {
		p.clock = p.clock.Add(time.Minute) // so that the rate limit does not apply
		if status, got, _ := ask(c.token, c.query); status != c.status || got != c.want {
			t.Errorf("%s %s: %d %q, want %d %q", c.token, c.query, status, got, c.status, c.want)
		}
	}
	got, after := "", ""
	for {
		p.clock = p.clock.Add(time.Minute)
		_, uids, next := ask("all", "?limit=1&after="+after)
		got += uids
		if after = next; after == "" {
			break
		}
	}
	if got != "1234" {
		t.Errorf("the pages have %q", got)
	}
	if text := p.log.String(); strings.Contains(text, "jane") {
		t.Errorf("the log has names: %s", text)
	}
}

// A request for a decision by its UID returns the text of the command line, for users who may see it.
func TestDecisionInWords(t *testing.T) {
	p := newPage(true)
	o := p.o
	o.Decisions = kept{{
		Schema: decision.Schema, Time: time.Unix(0, 0), UID: "1", Namespace: "a", Name: "web", User: "jane", Operation: "CREATE", Kind: "Pod", Verdict: decision.Refused, Message: "no",
		Rules: []decision.Result{{Policy: "p", Rule: "r", Status: "fail", Action: "Enforce", Message: "a team is needed", Path: "/metadata", Exceptions: []string{"x"}}},
	}}
	p.Dashboard = New(o)
	text, err := io.ReadAll(p.do("GET", "/api/v1/decisions?uid=1", "a").Body)
	for _, want := range []string{
		`"summary":"CREATE a/Pod/web by jane at 1970-01-01T00:00:00Z: refused"`, `"title":"policy p, rule r -\u003e resource a/Pod/web: fail"`,
		`"lines":["Enforce","message: a team is needed","path: /metadata","exempt by: x"]`,
	} {
		if err != nil || !strings.Contains(string(text), strings.ReplaceAll(want, `\\`, `\`)) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	if text, _ := io.ReadAll(p.do("GET", "/api/v1/decisions?uid=1", "cluster").Body); strings.Contains(string(text), "jane") {
		t.Errorf("who may not see it sees %s", text)
	}
	if text, _ := io.ReadAll(p.do("GET", "/api/v1/decisions", "a").Body); strings.Contains(string(text), "words") {
		t.Errorf("a list has words: %s", text)
	}
}

// torn is a store that cannot be read.
type torn struct{ kept }

func (torn) Page(context.Context, *decision.Query, string, int) (decision.Page, error) {
	return decision.Page{}, errors.New("database disk image is malformed")
}

// The answer names the store, and the reason is only in the log.
func TestStoreThatCannotBeRead(t *testing.T) {
	p := newPage(true)
	o := p.o
	o.Decisions = torn{}
	p.Dashboard = New(o)
	answer := p.do("GET", "/api/v1/decisions", "all")
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != 503 || !strings.Contains(string(text), "the store of decisions could not be read") || strings.Contains(string(text), "malformed") {
		t.Errorf("%d %s, %v", answer.StatusCode, text, err)
	}
}
