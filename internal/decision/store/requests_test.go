package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world/taped"
)

// bodyOf returns a body with a text that a test can search for in a file.
func bodyOf(text string) *decision.Body {
	sum := sha256.Sum256([]byte(text))
	return &decision.Body{Digest: hex.EncodeToString(sum[:16]), Deflated: []byte(text)}
}

// withRequests gives most records a request. Some of the bodies are in many requests, the others in one.
func withRequests(records []decision.Record, random *rand.Rand) []decision.Record {
	for i := range records {
		r := &records[i]
		if random.IntN(5) == 0 {
			continue
		}
		q := &decision.Request{Version: "v1", Resource: strings.ToLower(r.Kind) + "s", UserUID: "uid-of-" + r.User, UserExtra: map[string][]string{"scopes": {"a", "b"}, "credential": {r.User}}}
		q.Object = bodyOf(fmt.Sprintf("object %d of %s", i, r.User))
		if random.IntN(2) == 0 {
			q.OldObject, q.Cut = bodyOf(fmt.Sprintf("shared %d", random.IntN(20))), []string{"/object/data/*"}
		}
		if random.IntN(2) == 0 {
			q.Options = bodyOf("options")
		}
		if random.IntN(4) == 0 {
			q.Asked = &decision.Asked{Group: "apps", Version: "v1beta1", Kind: r.Kind, Resource: q.Resource}
		}
		if random.IntN(2) == 0 {
			q.Lookups = lookupsOf(i, r.User, random)
		}
		r.Request = q
	}
	return records
}

// lookupsOf returns lookups with a unique answer, with an answer that many requests have, and without an answer.
func lookupsOf(i int, user string, random *rand.Rand) *decision.Lookups {
	return &decision.Lookups{Salt: "0102", Lacks: []string{"shop Services"}, List: []decision.Lookup{
		{Method: "roles", Asked: "of " + user, Answer: bodyOf(fmt.Sprintf("answer %d to %s", i, user))},
		{Method: "object", Reach: "*", Asked: "secret", Unknown: decision.CutAnswer},
		{Method: "object", Reach: "*", Asked: "map", Answer: bodyOf(fmt.Sprintf("shared answer %d", random.IntN(20)))},
		{Method: "api", Reach: "*", Digest: "0304", Error: &taped.Failure{Text: "gone", Cause: "status", Args: []string{"NotFound", "404"}}},
	}}
}

// Requests arrive unchanged at the other end of the channel, and each text of a batch is sent once.
func TestRemoteRequests(t *testing.T) {
	to, a := &memory{}, newAuthority(t)
	_, connect := channel(t, to, a)
	s := connect(&tls.Config{RootCAs: a.pool(), ServerName: "server", Certificates: []tls.Certificate{a.issue(t, "sender", x509.ExtKeyUsageClientAuth)}})
	records := withRequests(some(1500, rand.New(rand.NewPCG(31, 32))), rand.New(rand.NewPCG(33, 34)))
	if err := s.Write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	if got, _ := to.stored(); !reflect.DeepEqual(got, records) {
		t.Fatalf("%d records", len(got))
	}
	batch, err := decision.AppendBatch(nil, decision.NewBatchID(), records[:256])
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(batch, []byte("options")); n != 1 {
		t.Errorf("a text is %d times in a batch", n)
	}
	alone := records[:1]
	for i := range records {
		if records[i].Request != nil {
			alone = []decision.Record{records[i]}
			alone[0].Request = alone[0].Request.WithoutTexts()
			break
		}
	}
	if batch, err = decision.AppendBatch(nil, decision.NewBatchID(), alone); err != nil {
		t.Fatal(err)
	}
	if _, _, err := decision.ParseBatch(batch, 1); !errors.Is(err, decision.ErrNoText) {
		t.Errorf("a batch without a text gives %v", err)
	}
}

// The size limit of the file applies to requests, too, even if all are from one second. The newest requests are complete.
func TestRequestBounds(t *testing.T) {
	const most = 1 << 20
	path := filepath.Join(t.TempDir(), "d.db")
	s := opened(t, path, Options{MaxBytes: most})
	random := rand.New(rand.NewPCG(35, 36))
	for n := range 40 {
		records := some(100, random)
		for i := range records {
			r := &records[i]
			r.Time = day.Add(time.Duration(100*n+i) * 20 * time.Microsecond)
			r.Request = &decision.Request{Version: "v1", Resource: "pods", Object: bodyOf(string(bytesOf(random, 1000))), Options: bodyOf("options")}
		}
		if err := s.Write(t.Context(), records); err != nil {
			t.Fatalf("batch %d: %v", n, err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() > most {
			t.Fatalf("%d bytes, %v", info.Size(), err)
		}
		got := all(t, s, &decision.Query{Requests: true}, 30)
		if len(got) < 100 {
			t.Fatalf("%d records are left", len(got))
		}
		for i := range records {
			if g := got[99-i]; !reflect.DeepEqual(g.Request, records[i].Request) {
				t.Fatalf("%+v, want %+v", g.Request, records[i].Request)
			}
		}
	}
	// Data that is left without its decision would never be deleted.
	var bodies, requests, orphans int
	if err := s.write.QueryRow("SELECT (SELECT count(*) FROM body), (SELECT count(*) FROM request), (SELECT count(*) FROM request WHERE id NOT IN (SELECT id FROM decision))").Scan(&bodies, &requests, &orphans); err != nil {
		t.Fatal(err)
	}
	if orphans > 0 || bodies > 2*requests+1000 {
		t.Errorf("%d bodies, %d requests, %d of them without a decision", bodies, requests, orphans)
	}
	later := some(1, random)
	later[0].Time = day.Add(time.Hour)
	write(t, s, later)
	if _, err := s.trim(t.Context(), requests); err != nil {
		t.Fatal(err)
	}
	if err := s.write.QueryRow("SELECT count(*) FROM body WHERE last < 1e18 AND id NOT IN (SELECT object FROM request)").Scan(&bodies); err != nil || bodies > 0 {
		t.Errorf("%d bodies are left, %v", bodies, err)
	}
}

// testErase erases a person in a store: no data of their requests is left, except for data that other requests use.
func testErase(t *testing.T, s interface {
	decision.Store
	decision.Reader
	decision.Eraser
}) {
	t.Helper()
	records := withRequests(some(600, rand.New(rand.NewPCG(37, 38))), rand.New(rand.NewPCG(39, 40)))
	var left []decision.Record
	for _, r := range records {
		if r.User != "user-3" {
			left = append(left, r)
		}
	}
	write(t, s, records)
	if n, err := s.EraseUser(t.Context(), "user-3"); err != nil || n != len(records)-len(left) {
		t.Fatalf("%d of %d are erased: %v", n, len(records)-len(left), err)
	}
	got := all(t, s, &decision.Query{Requests: true, Oldest: true}, 100)
	if len(got) != len(left) {
		t.Fatalf("%d records are left, want %d", len(got), len(left))
	}
	for i := range got {
		if !reflect.DeepEqual(got[i].Request, left[i].Request) {
			t.Fatalf("%+v\n%+v", got[i].Request, left[i].Request)
		}
	}
}

// Requests of a person are erased with the person's records, also in the bytes of the file.
func TestEraseRequests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	testErase(t, opened(t, path, Options{}))
	for _, suffix := range []string{"", "-wal"} {
		text, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("of user-3")) || bytes.Contains(text, []byte("uid-of-user-3")) || bytes.Contains(text, []byte("to user-3")) {
			t.Errorf("%s still has requests of the person", path+suffix)
		}
	}
}

// Large requests make short pages, and none is lost.
func TestLargeRequests(t *testing.T) {
	s := opened(t, filepath.Join(t.TempDir(), "d.db"), Options{})
	random := rand.New(rand.NewPCG(41, 42))
	records := some(20, random)
	for i := range records {
		records[i].Request = &decision.Request{Version: "v1", Resource: "pods", Object: bodyOf(string(bytesOf(random, pageBytes/8)))}
	}
	write(t, s, records)
	for _, q := range []decision.Query{{Requests: true, Oldest: true}, {Requests: true}, {Requests: true, Policies: []string{"policy-*"}}} {
		want := 0
		for i := range records {
			if q.Selects(&records[i]) {
				want++
			}
		}
		seen := map[string]bool{}
		for after := ""; ; {
			page, err := s.Page(t.Context(), &q, after, 100)
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Records) > 9 {
				t.Fatalf("a page has %d records", len(page.Records))
			}
			for _, r := range page.Records {
				if seen[r.UID] = true; r.Request == nil || len(r.Request.Object.Deflated) != pageBytes/8 {
					t.Fatal("a record has no request")
				}
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if len(seen) != want {
			t.Errorf("%+v: %d records, want %d", q, len(seen), want)
		}
	}
}

// A file of a version without lookups can be read. A write adds the column for lookups.
func TestFileWithoutLookups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	s := opened(t, path, Options{})
	records := withRequests(some(40, rand.New(rand.NewPCG(47, 48))), rand.New(rand.NewPCG(49, 50)))
	for i := range records[:20] {
		if q := records[i].Request; q != nil {
			q.Lookups = nil
		}
	}
	write(t, s, records[:20])
	if _, err := s.write.Exec("ALTER TABLE request DROP COLUMN lookups; PRAGMA user_version = 2"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	compare := func(s decision.Reader, want []decision.Record) {
		t.Helper()
		got := all(t, s, &decision.Query{Requests: true, Oldest: true}, 100)
		if len(got) != len(want) {
			t.Fatalf("%d records, want %d", len(got), len(want))
		}
		for i := range got {
			if !reflect.DeepEqual(got[i].Request, want[i].Request) {
				t.Fatalf("%+v\n%+v", got[i].Request, want[i].Request)
			}
		}
	}
	reader, err := ReadSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	compare(reader, records[:20])
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	again := opened(t, path, Options{})
	write(t, again, records[20:])
	compare(again, records)
}

// A file of a version without requests can be read. A write adds the tables for requests.
func TestOlderFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	random := rand.New(rand.NewPCG(43, 44))
	s := opened(t, path, Options{})
	write(t, s, some(20, random))
	if _, err := s.write.Exec("DROP TABLE request; DROP TABLE body; PRAGMA user_version = 1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	reader, err := ReadSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := all(t, reader, &decision.Query{Requests: true}, 100); len(got) != 20 {
		t.Errorf("%d records", len(got))
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	again := opened(t, path, Options{})
	write(t, again, withRequests(some(30, random), random))
	with := 0
	for _, r := range all(t, again, &decision.Query{Requests: true}, 100) {
		if r.Request != nil {
			with++
		}
	}
	if with < 10 {
		t.Errorf("%d records have requests", with)
	}
}

// observed counts the records that a Feed has stored or dropped.
type observed struct{ stored, dropped atomic.Int64 }

func (o *observed) DecisionKept(string)    { o.stored.Add(1) }
func (o *observed) DecisionsDropped(n int) { o.dropped.Add(int64(n)) }

// A decision with its request, a Pod of 7 kB of a few hundred ReplicaSets, takes at most 1.5 kB of the file.
func TestRoomOfRequests(t *testing.T) {
	pod, err := os.ReadFile("../testdata/pod.json")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "d.db")
	s := opened(t, path, Options{})
	redaction, err := decision.ParseRedaction(decision.DefaultRedaction)
	if err != nil {
		t.Fatal(err)
	}
	const n = 4000
	o := &observed{}
	f := decision.NewFeed(decision.Options{Store: s, Capacity: n, Users: decision.NameUsers, Requests: true, Redaction: redaction, Keep: decision.Keep{Share: 1}, Observer: o, Log: slog.New(slog.DiscardHandler)})
	program := &policy.Program{Name: "require-team"}
	rule := &policy.Rule{Name: "check"}
	gvk, gvr := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	random := rand.New(rand.NewPCG(45, 46))
	size := 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() { f.Run(ctx); close(done) }()
	for i := range n {
		for int64(i)-o.stored.Load()-o.dropped.Load() > 500 { // keeps the waiting records below the limit of their size
			time.Sleep(time.Millisecond)
		}
		name := fmt.Sprintf("web-%d-%x-%x", i%300, bytesOf(random, 5), bytesOf(random, 3))
		text := strings.ReplaceAll(string(pod), "NAME", name)
		size += len(text)
		f.Put(decision.Review{
			Request: &policy.Request{Review: policy.Review{
				UID: uuidText(bytesOf(random, 16)), Operation: policy.Create, GVK: gvk, RequestGVK: gvk, GVR: gvr, Namespace: fmt.Sprintf("team-%d", i%50), Name: name,
				Object: value.FromJSON(text), Options: map[string]any{"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
				User: &policy.User{Username: "system:serviceaccount:kube-system:replicaset-controller", Groups: []string{"system:authenticated"}},
			}},
			Webhook: "ValidatingWebhookConfiguration", Decision: policy.Decision{Allowed: true}, At: day.Add(time.Duration(i) * time.Second),
			Results: []policy.Result{{Program: program, Rule: rule, Yield: policy.Yield{Status: policy.StatusPass}}},
		})
	}
	cancel()
	<-done
	if o.stored.Load() != n || o.dropped.Load() > 0 {
		t.Fatalf("%d are stored, %d dropped", o.stored.Load(), o.dropped.Load())
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	each := info.Size() / n
	t.Logf("a decision with a Pod of %d bytes takes %d bytes", size/n, each)
	if each > 1500 {
		t.Errorf("a decision takes %d bytes", each)
	}
	reader, err := ReadSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	page, err := reader.Page(t.Context(), &decision.Query{Requests: true, Oldest: true}, "", 10)
	if err != nil || len(page.Records) != 10 {
		t.Fatalf("%d records, %v", len(page.Records), err)
	}
	for i := range page.Records {
		if review, err := page.Records[i].Review(); err != nil || !strings.Contains(string(review), page.Records[i].Name) {
			t.Errorf("%v: %s", err, review)
		}
	}
}
