package dashboard

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/world"
)

// objects grants rights to list reports, as in the tests of pages, and objects.
type objects struct {
	world.Access
	may map[string]bool // USER RESOURCE NAMESPACE, USER get RESOURCE/SUBRESOURCE NAMESPACE
}

func (o objects) Allowed(ctx context.Context, r world.AccessRequest) (bool, string, error) {
	if r.Group == "wgpolicyk8s.io" {
		return o.Access.Allowed(ctx, r)
	}
	key := r.Username + " " + r.Resource + " " + r.Namespace
	if r.Verb != "list" {
		key = r.Username + " " + r.Verb + " " + r.Resource + "/" + r.Subresource + " " + r.Namespace
	}
	return o.may[key], "", nil
}

// withRequests returns requests if a query asks for them.
type withRequests struct{ kept }

func (k withRequests) Page(ctx context.Context, q *decision.Query, after string, limit int) (decision.Page, error) {
	page, err := k.kept.Page(ctx, q, after, limit)
	for i := range page.Records {
		if !q.Requests {
			page.Records[i].Request = nil
		}
	}
	return page, err
}

// A recorded request is shown to a user who asks for it and may list its objects in their namespace; others see the decision
// without it.
func TestRequests(t *testing.T) {
	p := newPage(true)
	record := func(uid, namespace, resource, sub string) decision.Record {
		return decision.Record{
			Schema: decision.Schema, Time: time.Unix(0, 0), UID: uid, Namespace: namespace, Kind: "Pod", Subresource: sub, Verdict: decision.Refused,
			Request: &decision.Request{Version: "v1", Resource: resource, Object: &decision.Body{Digest: "00", Deflated: []byte("the object")}},
		}
	}
	o := p.o
	o.Access = objects{o.Access, map[string]bool{
		"all pods ": true, "all pods a": true, "all secrets a": true, "all get pods/exec a": true, "a pods a": true,
	}}
	o.Decisions = withRequests{kept{
		record("1", "a", "pods", ""), record("2", "b", "pods", ""), record("3", "a", "secrets", ""), record("4", "b", "secrets", ""), record("5", "a", "pods", "exec"), record("6", "b", "pods", "exec"),
	}}
	p.Dashboard = New(o)
	for _, c := range []struct {
		token, query string
		status       int
		shown, kept  string
	}{
		{"all", "?requests=true", 200, "1235", "46"}, {"a", "?requests=true&order=oldest", 200, "1", "35"}, {"all", "", 200, "", ""}, {"all", "?requests=false&order=newest", 200, "", ""},
		{"all", "?requests=yes", 400, "", ""}, {"all", "?order=random", 400, "", ""},
	} {
		p.clock = p.clock.Add(time.Minute) // so that the rate limit does not apply
		answer := p.do("GET", "/api/v1/decisions"+c.query, c.token)
		var page decision.Page
		if err := json.NewDecoder(answer.Body).Decode(&page); err != nil || answer.StatusCode != c.status {
			t.Fatalf("%s %s: %d, %v", c.token, c.query, answer.StatusCode, err)
		}
		shown, withheld := "", ""
		for _, r := range page.Records {
			switch {
			case r.Request == nil:
			case r.Request.Withheld && r.Request.Object == nil && r.Request.Resource == "":
				withheld += r.UID
			case string(r.Request.Object.Deflated) == "the object":
				shown += r.UID
			}
		}
		if shown != c.shown || withheld != c.kept {
			t.Errorf("%s %s: %q are shown and %q withheld, want %q and %q", c.token, c.query, shown, withheld, c.shown, c.kept)
		}
	}
}

// Lookups of rules may contain any object, so they are shown only to users who may list everything.
func TestLookupsAreOfReadersOfEverything(t *testing.T) {
	p := newPage(true)
	o := p.o
	o.Access = objects{o.Access, map[string]bool{"all pods ": true, "all * ": true, "a pods a": true}}
	recorded := &decision.Lookups{List: []decision.Lookup{{Method: "object", Asked: "looked up", Answer: &decision.Body{Digest: "01", Deflated: []byte("the answer")}}}}
	o.Decisions = withRequests{kept{{
		Schema: decision.Schema, Time: time.Unix(0, 0), UID: "1", Namespace: "a", Kind: "Pod", Verdict: decision.Refused,
		Request: &decision.Request{Version: "v1", Resource: "pods", Object: &decision.Body{Digest: "00", Deflated: []byte("the object")}, Lookups: recorded},
	}}}
	p.Dashboard = New(o)
	for token, want := range map[string]bool{"all": true, "a": false} {
		p.clock = p.clock.Add(time.Minute)
		var page decision.Page
		if err := json.NewDecoder(p.do("GET", "/api/v1/decisions?requests=true", token).Body).Decode(&page); err != nil || len(page.Records) != 1 {
			t.Fatal(token, err, page)
		}
		q := page.Records[0].Request
		if q.Object == nil || q.Lookups == nil || q.Lookups.Withheld == want || (len(q.Lookups.List) == 1) != want {
			t.Errorf("%s: %+v", token, q)
		}
	}
	if recorded.Withheld || len(recorded.List) != 1 {
		t.Error("the store's own record is changed")
	}
}
