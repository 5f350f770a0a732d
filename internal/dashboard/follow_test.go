package dashboard

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/cluster"
	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/reports"
)

const item = `{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":%q,"namespace":"a","resourceVersion":%q},` +
	`"scope":{"kind":"Pod","name":%[1]q,"namespace":"a"},"results":[{"policy":"p","rule":"r","result":%[3]q}]}`

// readerOf returns a reader of the API server at an address.
func readerOf(t *testing.T, address string) *reader {
	t.Helper()
	client, err := cluster.Client(&rest.Config{Host: address})
	if err != nil {
		t.Fatal(err)
	}
	return &reader{client: client, kind: reports.PolicyReports.Namespaced, index: newIndex(), log: slog.New(slog.DiscardHandler)}
}

// A watch may end because its version has expired, which takes minutes on a real API server. Then all reports are listed again, and those
// that were deleted meanwhile are removed. Everything else is tested on a real API server (e2e/dashboard).
func TestFollowListsAgain(t *testing.T) {
	lists, resumed := 0, ""
	second := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		q := r.URL.Query()
		switch {
		case q.Get("watch") == "true" && lists < 3 && q.Get("resourceVersion") == "5": // the first watch: two events, then its end
			fmt.Fprintf(w, `{"type":"MODIFIED","object":`+item+`}`+"\n", "one", "6", "pass")
			fmt.Fprint(w, `{"type":"BOOKMARK","object":{"kind":"PolicyReport","metadata":{"resourceVersion":"9"}}}`+"\n")
		case q.Get("watch") == "true" && lists < 3: // the second: the versions are gone
			resumed = q.Get("resourceVersion")
			fmt.Fprint(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old","reason":"Expired","code":410}}`+"\n")
		case q.Get("watch") == "true":
			close(second)
			<-r.Context().Done()
		case q.Get("continue") == "" && lists == 0: // the first list: two pages
			lists++
			fmt.Fprintf(w, `{"metadata":{"resourceVersion":"5","continue":"more"},"items":[`+item+`]}`, "one", "1", "fail")
		case q.Get("continue") == "more":
			lists++
			fmt.Fprintf(w, `{"metadata":{"resourceVersion":"7"},"items":[`+item+`]}`, "two", "2", "fail")
		default:
			lists++
			fmt.Fprintf(w, `{"metadata":{"resourceVersion":"20"},"items":[`+item+`]}`, "one", "12", "warn")
		}
	}))
	defer server.Close()
	r := readerOf(t, server.URL)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.follow(ctx, func() {})
	}()
	select {
	case <-second:
	case <-time.After(time.Minute):
		t.Error("it is not listed again")
	}
	stop()
	<-done
	if got := r.index.summary(&query{sees: all}).Totals.Counts; got != (compliance.Counts{Warn: 1}) || resumed != "9" {
		t.Errorf("%+v; the watch went on from %q", got, resumed)
	}
}

// Reports are read in smaller pages where they are large: the admin of a namespace may write reports of more than a megabyte each.
func TestLargeReports(t *testing.T) {
	large := strings.Repeat("x", 2<<20)
	most, requests := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		w.Header().Set("Content-Type", "application/json")
		limit, _ := strconv.Atoi(r.FormValue("limit"))
		first, _ := strconv.Atoi(r.FormValue("continue"))
		var items []string
		size := 0
		for i := first; i < min(100, first+limit); i++ {
			text := fmt.Sprintf(item, fmt.Sprint("r", i), "1", "fail")
			if i >= 20 && i < 40 {
				text = strings.Replace(text, `"rule"`, `"message":"`+large+`","rule"`, 1)
			}
			size += len(text)
			items = append(items, text)
		}
		next := ""
		if first+limit < 100 {
			next = strconv.Itoa(first + limit)
		}
		if n, err := fmt.Fprintf(w, `{"metadata":{"resourceVersion":"5","continue":%q},"items":[%s]}`, next, strings.Join(items, ",")); err == nil && n > size {
			most = max(most, limit)
		}
	}))
	defer server.Close()
	r := readerOf(t, server.URL)
	if _, err := r.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.index.summary(&query{sees: all}).Totals.Counts; got != (compliance.Counts{Fail: 100}) || most == 100 || requests > 60 {
		t.Errorf("%+v after %d requests, the largest page for %d reports", got, requests, most)
	}
}
