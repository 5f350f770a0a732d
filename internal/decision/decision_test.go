package decision

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// counter counts the records that a Feed reports as kept or dropped. A Feed reports from several goroutines; tests read when they have ended.
type counter struct {
	mu            sync.Mutex
	kept, dropped int
}

func (c *counter) DecisionKept(string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept++
}

func (c *counter) DecisionsDropped(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped += n
}

func feed(to io.Writer, keep Keep, capacity int) (*Feed, *counter) {
	c := &counter{}
	return NewFeed(Options{Store: NewLines(to), Keep: keep, Capacity: capacity, Users: NameUsers, Observer: c, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}), c
}

func request(resource, object string) *policy.Request {
	return &policy.Request{Review: policy.Review{
		UID: "u", Operation: policy.Create, RequestGVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, GVR: schema.GroupVersionResource{Version: "v1", Resource: resource},
		Namespace: "shop", Name: "p", Object: value.FromJSON(object), User: &policy.User{Username: "jane", Groups: []string{"dev"}},
	}}
}

func result(name string, status policy.Status, message string) policy.Result {
	return policy.Result{Program: &policy.Program{Name: name}, Rule: &policy.Rule{Name: "r"}, Yield: policy.Yield{Status: status, Message: message}, Action: policy.Audit}
}

func review(allowed bool, results ...policy.Result) Review {
	return Review{Request: request("pods", `{}`), Decision: policy.Decision{Allowed: allowed, Message: "no"}, Results: results, At: time.Unix(1, 0)}
}

// drain writes the waiting reviews, and returns their records.
func drain(t *testing.T, f *Feed, out *bytes.Buffer) (records []Record) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.Run(ctx)
	err := Read(out, func(r *Record) bool { records = append(records, *r); return true }, func(line int, err error) { t.Errorf("line %d: %v", line, err) })
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// All reviews are kept except passed ones. Of these a share is kept, which can be set for each policy.
func TestKept(t *testing.T) {
	exempt := result("p", policy.StatusSkip, "")
	exempt.Exceptions = []*policy.Exception{{Namespace: "shop", Name: "x"}}
	warned, changed := review(true, result("p", policy.StatusPass, "")), review(true, result("p", policy.StatusPass, ""))
	warned.Warnings, changed.Patch = []string{"w"}, []byte("[]")
	for name, c := range map[string]struct {
		review Review
		keep   Keep
		want   Verdict // empty: not kept
	}{
		"refused":                {review(false, result("p", policy.StatusFail, "no")), Keep{}, Refused},
		"refused by nothing":     {review(false), Keep{}, Refused},
		"an error":               {review(true, result("p", policy.StatusFail, "no"), result("p", policy.StatusError, "?")), Keep{}, Erred},
		"a violation":            {review(true, result("p", policy.StatusFail, "no")), Keep{}, Violating},
		"a warning":              {warned, Keep{}, Warned},
		"a change":               {changed, Keep{}, Changed},
		"an exception":           {review(true, exempt), Keep{}, Exempt},
		"passed, none kept":      {review(true, result("p", policy.StatusPass, "")), Keep{}, ""},
		"passed, all kept":       {review(true, result("p", policy.StatusPass, "")), Keep{Share: 1}, Passed},
		"passed, all of another": {review(true, result("p", policy.StatusPass, "")), Keep{By: map[string]float64{"q": 1}}, ""},
		"passed, all of p":       {review(true, result("p", policy.StatusPass, "")), Keep{By: map[string]float64{"p": 1}}, Passed},
		"passed, none of p":      {review(true, result("p", policy.StatusPass, "")), Keep{Share: 1, By: map[string]float64{"p": 0}}, ""},
		"no rule for it":         {review(true), Keep{Share: 1}, ""},
	} {
		var out bytes.Buffer
		f, counted := feed(&out, c.keep, 10)
		f.Put(c.review)
		records := drain(t, f, &out)
		got := Verdict("")
		if len(records) > 0 {
			got = records[0].Verdict
		}
		if got != c.want || counted.kept != len(records) || counted.dropped != 0 {
			t.Errorf("%s: %q, want %q; %+v", name, got, c.want, counted)
		}
	}
}

// A share of passed reviews is kept. Each record has the share, so that the number of reviews can be estimated.
func TestShare(t *testing.T) {
	var out bytes.Buffer
	f, _ := feed(&out, Keep{Share: 0.1}, 100_000)
	for range 20_000 {
		f.Put(review(true, result("p", policy.StatusPass, "")))
	}
	records := drain(t, f, &out)
	if n := len(records); n < 1700 || n > 2300 || records[0].Share != 0.1 {
		t.Errorf("%d records, share %v", n, records[0].Share)
	}
}

// A full queue and a failing store lose records. Lost records are counted, and reviews do not wait.
func TestLossIsCounted(t *testing.T) {
	var out bytes.Buffer
	f, counted := feed(&out, Keep{}, 3)
	for range 5 {
		f.Put(review(false))
	}
	if counted.dropped != 2 {
		t.Errorf("%d are dropped, want 2", counted.dropped)
	}
	if n := len(drain(t, f, &out)); n != 3 {
		t.Errorf("%d records, want 3", n)
	}
	f, counted = feed(failing{}, Keep{}, 3)
	f.Put(review(false))
	if drain(t, f, &out); counted.dropped != 1 || counted.kept != 0 {
		t.Errorf("%+v", counted)
	}
	(*Feed)(nil).Put(review(false))
	(*Feed)(nil).Run(t.Context())
}

// T24: the recorded requests of a batch are bounded in bytes, as those in the queue are, while the store is slow. Drops are counted.
func TestT24RecordedRequestsAreBounded(t *testing.T) {
	f, counted := feed(io.Discard, Keep{}, 1000)
	f.Requests = true
	for range 100 {
		r := review(false)
		r.Request = request("pods", `{"data":"`+strings.Repeat("x", 1<<20-1000)+`"}`)
		f.Put(r)
		f.collect(t.Context()) // the batch is not written
	}
	held := 0
	for _, r := range f.batch.records {
		if r.Request == nil || r.Request.Object == nil {
			t.Fatal("the request is not recorded")
		}
		held += 1 << 20
	}
	if limit := batchBytes + 1<<20; held > limit || f.waiting.Load() > maxWaiting || len(f.batch.records)+len(f.queue)+counted.dropped != 100 {
		t.Errorf("the batch has %d bytes, the queue %d, and %d reviews are dropped", held, f.waiting.Load(), counted.dropped)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// No value of a Secret leaves the process, whatever the form in which a message contains it.
func TestSecretsAreCut(t *testing.T) {
	plain := "planted \"value\"\n"
	encoded := base64.StdEncoding.EncodeToString([]byte(plain))
	object := `{"apiVersion":"v1","kind":"Secret","data":{"k":"` + encoded + `","short":"` + base64.StdEncoding.EncodeToString([]byte("abc")) + `"},"stringData":{"s":"other-planted"}}`
	long := strings.Repeat("x", value.MaxMessage-10) + encoded
	var out bytes.Buffer
	f, _ := feed(&out, Keep{}, 10)
	r := review(false, result("p", policy.StatusFail, "found "+plain), result("p", policy.StatusFail, "found "+encoded), result("p", policy.StatusFail, value.JSON(map[string]any{"k": plain})),
		result("p", policy.StatusFail, "other-planted it is"), result("p", policy.StatusFail, "it is abc"), result("p", policy.StatusFail, value.Message(long)), result("p", policy.StatusFail, "a plain text"))
	r.Request, r.Message = request("secrets", object), "refused for other-planted"
	f.Put(r)
	records := drain(t, f, &out)
	if len(records) != 1 || len(records[0].Rules) != 7 {
		t.Fatalf("%+v", records)
	}
	text := fmt.Sprintf("%+v", records)
	for _, planted := range []string{"planted", encoded[:12], "abc"} {
		if strings.Contains(text, planted) {
			t.Errorf("%q is in %s", planted, text)
		}
	}
	if got := records[0].Rules[6].Message; got != "a plain text" {
		t.Errorf("%q", got)
	}
}

// An error that shows only the beginning of a value reveals nothing of a Secret or of a redacted value.
func TestBeginningsOfSecretsAreCut(t *testing.T) {
	secret := "planted-" + strings.Repeat("x", 8000)
	redaction, err := ParseRedaction([]string{"/spec/key", "/spec/pin"})
	if err != nil {
		t.Fatal(err)
	}
	for _, req := range []*policy.Request{request("secrets", `{"stringData":{"k":"`+secret+`"}}`), request("keys", `{"spec":{"key":"`+secret+`","pin":[123456]}}`)} {
		var out bytes.Buffer
		f, _ := feed(&out, Keep{}, 10)
		f.Redaction = redaction
		r := review(false, result("p", policy.StatusError, "Invalid type for: "+value.Print(secret, 4096)+", expected: []jmespath.JpType{\"number\"}"), result("p", policy.StatusError, "the value "+strconv.Quote(value.Clip(secret, 100))+" is data"),
			result("p", policy.StatusFail, "a plain text…"))
		r.Request = req
		f.Put(r)
		records := drain(t, f, &out)
		if text := fmt.Sprintf("%+v", records); strings.Contains(text, "planted") || records[0].Rules[2].Message != "a plain text…" {
			t.Errorf("%.300s", text)
		}
	}
}

// Redacted numbers are cut from messages.
func TestNumbersAreCut(t *testing.T) {
	redaction, err := ParseRedaction([]string{"/spec/pin"})
	if err != nil {
		t.Fatal(err)
	}
	for _, pin := range []string{"123456", "1234.5", `{"a":[123456,true,null]}`} {
		var out bytes.Buffer
		f, _ := feed(&out, Keep{}, 10)
		f.Redaction = redaction
		r := review(false, result("p", policy.StatusFail, "true or null: the pin is 123456 or 1234.5"))
		r.Request = request("keys", `{"spec":{"pin":`+pin+`}}`)
		f.Put(r)
		if text := drain(t, f, &out)[0].Rules[0].Message; !strings.Contains(text, "true or null: the pin is ") || strings.Count(text, Redacted) != 1 {
			t.Errorf("%s: %s", pin, text)
		}
	}
}

// The values of one request are bounded in number: a user could make messages take minutes to be searched for all of them. Every text about a request with
// more is replaced as a whole, and no answer of a lookup is recorded.
func TestManySecretValues(t *testing.T) {
	members := make([]string, maxForms)
	for i := range members {
		members[i] = fmt.Sprintf(`"k%d":"value-%d"`, i, i)
	}
	redaction, err := ParseRedaction([]string{"/data/*"})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{100: "a plain text", len(members): Redacted} {
		for _, req := range []*policy.Request{request("secrets", `{"stringData":{`+strings.Join(members[:n], ",")+`}}`), request("keys", `{"data":{`+strings.Join(members[:n], ",")+`}}`)} {
			var out bytes.Buffer
			f, _ := feed(&out, Keep{}, 10)
			f.Redaction = redaction
			r := review(false, result("p", policy.StatusFail, "a plain text"), result("p", policy.StatusFail, "it is value-7"))
			r.Request = req
			f.Put(r)
			if rules := drain(t, f, &out)[0].Rules; rules[0].Message != want || strings.Contains(rules[1].Message, "value-7") {
				t.Errorf("%d values: %q, %q", n, rules[0].Message, rules[1].Message)
			}
		}
	}
}

// A store that claims to have lost more records than it got loses those.
func TestMoreLostThanGiven(t *testing.T) {
	f, counted := feed(nil, Keep{}, 10)
	f.Store = losing{}
	f.Put(review(false))
	if drain(t, f, &bytes.Buffer{}); counted.dropped != 1 || counted.kept != 0 {
		t.Errorf("%+v", counted)
	}
}

type losing struct{ discarding }

func (losing) Write(context.Context, []Record) error {
	return &PartlyStored{Lost: 1000, Err: errors.New("lost")}
}

// A file is continued after a process that ended while it wrote, and stays within its maximum size.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	torn := `{"schema":"` + Schema + `","uid":"torn`
	if err := os.WriteFile(path, []byte(`{"schema":"`+Schema+`","uid":"first"}`+"\n"+torn), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLines(path, 600)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := l.Write(t.Context(), []Record{{Schema: Schema, UID: fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Size() > 600 {
			t.Fatalf("%d bytes, %v", info.Size(), err)
		}
		if i > 0 {
			continue
		}
		uids, wrong := read(t, path)
		if strings.Join(uids, " ") != "first 0" || wrong != 1 {
			t.Errorf("%q, %d lines cannot be read", uids, wrong)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	uids, wrong := read(t, path)
	older, _ := read(t, path+".1")
	if wrong > 0 || len(uids) == 0 || uids[len(uids)-1] != "19" || len(older) == 0 {
		t.Errorf("%q after %q, %d lines cannot be read", uids, older, wrong)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func read(t *testing.T, path string) (uids []string, wrong int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Read(f, func(r *Record) bool { uids = append(uids, r.UID); return true }, func(int, error) { wrong++ }); err != nil {
		t.Fatal(err)
	}
	return uids, wrong
}

// The names of users can be left out.
func TestWithoutUsers(t *testing.T) {
	var out bytes.Buffer
	f, _ := feed(&out, Keep{}, 1)
	f.Users = OmitUsers
	f.Put(review(false))
	if r := drain(t, f, &out)[0]; r.User != "" || r.Groups != nil || r.Namespace != "shop" {
		t.Errorf("%+v", r)
	}
}

// digests is a fixed key for tests.
type digests struct{}

func (digests) Digest(_ context.Context, domain, text string) (out [16]byte, ok bool) {
	sum := sha256.Sum256([]byte("key " + domain + " " + text))
	return [16]byte(sum[:16]), true
}

// A record has digests of the request and of the answer, each in a separate domain. Users can be recorded as digests, too.
func TestDigests(t *testing.T) {
	var out bytes.Buffer
	f, _ := feed(&out, Keep{}, 2)
	f.Digests, f.Users = digests{}, HashUsers
	r := review(false)
	r.Patch, r.Policies = []byte(`[{"op":"remove","path":"/a"}]`), [16]byte{1}
	f.Put(r)
	f.Put(r)
	got := drain(t, f, &out)
	if len(got) != 2 || got[0].User != got[1].User || len(got[0].User) != 32 || len(got[0].Groups) != 1 || len(got[0].Groups[0]) != 32 {
		t.Fatalf("%+v", got)
	}
	for _, digest := range []string{got[0].Object, got[0].Patch, got[0].Policies} {
		if len(digest) != 32 {
			t.Errorf("%q is not 16 bytes in hex", digest)
		}
	}
	if same, _ := (digests{}).Digest(t.Context(), "object", `{}`); hex.EncodeToString(same[:]) != got[0].Object {
		t.Errorf("the digest of the object is %s", got[0].Object)
	}
}

// BenchmarkPut measures the time for which the goroutine of the answer waits. It makes no record of a review that is not kept, and encodes none.
func BenchmarkPut(b *testing.B) {
	f, _ := feed(io.Discard, Keep{Share: 0.01}, 1<<20)
	r := review(true, result("p", policy.StatusPass, ""), result("q", policy.StatusPass, ""))
	b.ReportAllocs()
	for b.Loop() {
		f.Put(r)
		for len(f.queue) > 0 {
			<-f.queue
		}
	}
}

// The size of the waiting reviews is bounded, too. A single review may be larger.
func TestWaitingIsBounded(t *testing.T) {
	var out bytes.Buffer
	f, c := feed(&out, Keep{Share: 1}, 1000)
	large := func(size int) Review {
		r := review(false)
		r.Request = request("pods", `{"a":"`+strings.Repeat("x", size)+`"}`)
		return r
	}
	for range 10 {
		f.Put(large(1 << 20))
	}
	if kept := len(drain(t, f, &out)); kept != 5 || c.dropped != 5 {
		t.Errorf("%d reviews of 1 MB are recorded, %d are dropped", kept, c.dropped)
	}
	if got := f.waiting.Load(); got != 0 {
		t.Errorf("%d bytes wait in an empty queue", got)
	}
	f, c = feed(&out, Keep{Share: 1}, 1000)
	f.Put(large(2 * maxWaiting))
	f.Put(large(1))
	if kept := len(drain(t, f, &out)); kept != 1 || c.dropped != 1 {
		t.Errorf("beside a review of 12 MB %d are recorded, %d are dropped", kept, c.dropped)
	}
}

// Messages count towards the size of the waiting reviews, and of the records that wait for a store.
func TestWaitingMessagesAreBounded(t *testing.T) {
	f, c := feed(io.Discard, Keep{}, 1000)
	long := strings.Repeat("m", 1<<20)
	put := func() { f.Put(review(false, result("p", policy.StatusFail, long))) }
	for range 10 {
		put()
	}
	if c.dropped != 5 {
		t.Errorf("%d of 10 reviews of 1 MB are dropped, want 5", c.dropped)
	}
	for range 20 {
		f.collect(t.Context())
		put()
	}
	if n := len(f.batch.records); n > batchBytes/len(long)+1 {
		t.Errorf("%d records of 1 MB wait for the store", n)
	}
}

// A waiting review holds texts instead of decoded objects.
func TestWaitingIsLean(t *testing.T) {
	r := review(true, result("p", policy.StatusFail, "no"))
	r.Request.Name = ""
	r.Request.Object = value.FromJSON(`{"metadata":{"generateName":"web-"}}`)
	r.Results[0].Object = value.Of(map[string]any{})
	k := lean(r, Violating, 1)
	if k.Request == r.Request || k.Request.Object == r.Request.Object || k.Request.Object.Text() != r.Request.Object.Text() || k.Request.Name != "web-*" {
		t.Errorf("%+v", k.Request)
	}
	if k.Results[0].Object != nil || r.Results[0].Object == nil {
		t.Error("the objects of results wait, or are lost for others")
	}
}

// Waiting reviews are taken when there are enough of them, and then all of them are taken.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := feed(io.Discard, Keep{}, 10_000)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { f.Run(ctx); close(done) }()
		for range wakeReviews {
			f.Put(review(false))
		}
		synctest.Wait()
		if n := len(f.queue); n > 0 {
			t.Errorf("%d reviews wait for the next tick", n)
		}
		f.Put(review(false))
		cancel()
		<-done
		if c.kept != wakeReviews+1 || c.dropped != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// Records of a batch do not share results, although the next batch reuses the memory.
func TestResultsOfRecords(t *testing.T) {
	var out bytes.Buffer
	f, _ := feed(&out, Keep{}, 10_000)
	const n = 3*batchRecords + 5
	for i := range n {
		var results []policy.Result
		for k := range i % 4 {
			results = append(results, result("p", policy.StatusFail, fmt.Sprint(i, " ", k)))
		}
		f.Put(review(false, results...))
	}
	records := drain(t, f, &out)
	if len(records) != n {
		t.Fatalf("%d records", len(records))
	}
	for i, r := range records {
		if len(r.Rules) != i%4 {
			t.Fatalf("record %d has %d results", i, len(r.Rules))
		}
		for k := range r.Rules {
			if r.Rules[k].Message != fmt.Sprint(i, " ", k) {
				t.Fatalf("record %d: %+v", i, r.Rules)
			}
		}
	}
}

// blocked is a Store whose first Write waits until it is released.
type blocked struct {
	begun, release chan struct{}
	batches        []int
	after          bool // Write was called after Close
	closed         bool
}

func (b *blocked) Write(_ context.Context, records []Record) error {
	if len(b.batches) == 0 {
		close(b.begun)
		<-b.release
	}
	for i := range records {
		if records[i].Schema != Schema || len(records[i].Rules) != 1 {
			return fmt.Errorf("record %d: %+v", i, records[i])
		}
	}
	b.batches, b.after = append(b.batches, len(records)), b.after || b.closed
	return nil
}

func (b *blocked) Close() error { b.closed = true; return nil }

// While a batch is written, records of further reviews are made, up to a limit; none is lost.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &blocked{begun: make(chan struct{}), release: make(chan struct{})}
		f, c := feed(io.Discard, Keep{}, 10_000)
		f.Store = store
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { f.Run(ctx); close(done) }()
		put := func(n int) {
			for range n {
				f.Put(review(false, result("p", policy.StatusFail, "no")))
			}
		}
		left := func(n int) {
			t.Helper()
			time.Sleep(batchDelay)
			synctest.Wait()
			if len(f.queue) != n {
				t.Fatalf("%d reviews wait, want %d", len(f.queue), n)
			}
		}
		put(batchRecords)
		<-store.begun
		first := batchRecords + mostRecords
		put(mostRecords)
		left(0)
		put(100)
		left(100)
		cancel()
		close(store.release)
		<-done
		total := 0
		for _, n := range store.batches {
			total += n
		}
		if want := first + 100; total != want || c.kept != want || c.dropped != 0 || len(f.queue) != 0 || store.after || !store.closed {
			t.Errorf("batches of %d, %+v; want %d records", store.batches, c, want)
		}
	})
}

// stuck is a store that does not return, or only when its context ends.
type stuck struct {
	honest  bool
	release chan struct{}
}

func (s *stuck) Write(ctx context.Context, _ []Record) error {
	if !s.honest {
		<-s.release
	}
	<-ctx.Done()
	return ctx.Err()
}

func (*stuck) Close() error { return nil }

// A process ends although its store does not answer, and the decisions are counted as lost.
func TestEndWithAStuckStore(t *testing.T) {
	for _, honest := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store := &stuck{honest: honest, release: make(chan struct{})}
			f, c := feed(io.Discard, Keep{}, 10_000)
			f.Store = store
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { f.Run(ctx); close(done) }()
			const n = 5 * mostRecords
			for range n {
				f.Put(review(false, result("p", policy.StatusFail, "no")))
			}
			synctest.Wait()
			cancel()
			select {
			case <-done:
			case <-time.After(2 * endTimeout):
				t.Errorf("honest %t: it does not end", honest)
			}
			if c.dropped != n || c.kept > 0 {
				t.Errorf("honest %t: %d kept, %d dropped, want %d dropped", honest, c.kept, c.dropped, n)
			}
			close(store.release)
			<-done
		})
	}
}

// tidied is a store whose deletions of old records end with their context.
type tidied struct {
	Lines
	n atomic.Int32
}

func (s *tidied) Tidy(ctx context.Context) error {
	<-ctx.Done()
	s.n.Add(1)
	return ctx.Err()
}

// Old records are deleted while reviews are recorded. A deletion that does not end is stopped, and another one begins.
func TestOldRecordsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &tidied{}
		f, _ := feed(io.Discard, Keep{}, 1)
		f.Store = store
		ctx, cancel := context.WithTimeout(t.Context(), 10*tidyEvery)
		defer cancel()
		f.Run(ctx)
		synctest.Wait()
		if n := store.n.Load(); n < 4 {
			t.Errorf("%d deletions in %s", n, 10*tidyEvery)
		}
	})
}
