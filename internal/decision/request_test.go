package decision

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Values that the pointers select are replaced in any object, and reported by their paths; nothing else changes.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		name, pointers, text, want, paths string
	}{
		{"nothing", "", `{ "a" : [1, "x"] }`, `{ "a" : [1, "x"] }`, ""},
		{"a member", "/a/b", `{"a":{"b":"x","c":1.50},"b":2}`, `{"a":{"b":"**REDACTED**","c":1.50},"b":2}`, "/o/a/b"},
		{"items", "/a/*/v", `{"a":[{"v":1},{"w":2},{"v":{"x":3}}]}`, `{"a":[{"v":"**REDACTED**"},{"w":2},{"v":"**REDACTED**"}]}`, "/o/a/*/v"},
		{"one item", "/a/1", `{"a":["x","y"]}`, `{"a":["x","**REDACTED**"]}`, "/o/a/*"},
		{"members", "/d/*", `{"d":{"k":"x","l":null}}`, `{"d":{"k":"**REDACTED**","l":null}}`, "/o/d/*"},
		{"any level", "/**/env/*/value", `{"spec":{"t":{"c":[{"env":[{"name":"A","value":"x"},{"valueFrom":1}]}]}},"env":[{"value":"y"}]}`,
			`{"spec":{"t":{"c":[{"env":[{"name":"A","value":"**REDACTED**"},{"valueFrom":1}]}]}},"env":[{"value":"**REDACTED**"}]}`, "/o/spec/t/c/*/env/*/value /o/env/*/value"},
		{"an escaped name", "/a~1b/c~0d", `{"a/b":{"c~d":"x"}}`, `{"a/b":{"c~d":"**REDACTED**"}}`, "/o/a~1b/c~0d"},
		{"twice", "/a", `{"a":"x","a":"y"}`, `{"a":"**REDACTED**","a":"**REDACTED**"}`, "/o/a"},
		{"kubectl's copy", "/s/*", `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"s\":{\"k\":\"x\"}}\n"}},"s":{}}`,
			`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"s\":{\"k\":\"**REDACTED**\"}}"}},"s":{}}`,
			"/o/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration"},
		{"kubectl's copy that is none", "/s/*", `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{x"}}}`,
			`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"**REDACTED**"}}}`,
			"/o/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration"},
	} {
		r, err := ParseRedaction(strings.Fields(c.pointers))
		if err != nil {
			t.Fatal(err)
		}
		got, paths, _, err := cut(c.text, "/o", r.of(false))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if strings.ReplaceAll(got, `\n`, "") != c.want || strings.Join(paths, " ") != c.paths {
			t.Errorf("%s:\ngot  %s %q\nwant %s %q", c.name, got, paths, c.want, c.paths)
		}
	}
	for _, bad := range []string{"spec", "/", "/**", "/a/**", "/**/**/a", strings.Repeat("/a", 40)} {
		if _, err := ParseRedaction([]string{bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// An object with many different paths to redacted values takes no more time for each: the comparison of all with all would take minutes.
func TestManyPaths(t *testing.T) {
	const n = 200_000
	object := []byte(`{"a":0`)
	for i := range n {
		object = fmt.Appendf(object, `,"k%06d":{"v":1}`, i)
	}
	_, paths, _, err := cut(string(append(object, '}')), "/object", [][]string{{"*", "v"}, copyPointer})
	if len(paths) != n || err != nil {
		t.Errorf("%d paths, %v", len(paths), err)
	}
}

// planted is a value that no output may contain.
const planted = "planted-Zq8"

// podRequest returns a request for a Pod with the planted value in its environment, and in the copy that kubectl keeps.
func podRequest(i int) *policy.Request {
	object := func(version int) string {
		text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p%d","namespace":"shop","resourceVersion":"%d"},"spec":{"containers":[{"name":"c","image":"nginx","env":[{"name":"TOKEN","value":%q}]}]}}`, i, version, planted)
		return strings.Replace(text, `"resourceVersion"`, `"annotations":{"`+lastApplied+`":`+value.JSON(text)+`},"resourceVersion"`, 1)
	}
	gvk, gvr := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	return &policy.Request{Review: policy.Review{
		UID: fmt.Sprint("u", i), Operation: policy.Update, GVK: gvk, RequestGVK: gvk, GVR: gvr, Namespace: "shop", Name: fmt.Sprint("p", i),
		Object: value.FromJSON(object(2)), OldObject: value.FromJSON(object(1)), Options: map[string]any{"kind": "UpdateOptions"},
		User: &policy.User{Username: "jane", UID: "7", Groups: []string{"dev"}, Extra: map[string][]string{"scopes": {"a"}}},
	}}
}

func recording(to Store) *Feed {
	r, _ := ParseRedaction(DefaultRedaction)
	return NewFeed(Options{Store: to, Capacity: 10_000, Observer: &counter{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Requests: true, Redaction: r, Users: NameUsers})
}

// A recorded request is the original AdmissionReview without the cut values. Texts that records share are stored once.
func TestRequestsAreRecorded(t *testing.T) {
	var out bytes.Buffer
	f := recording(NewLines(&out))
	for range 2 {
		r := review(false, result("p", policy.StatusFail, "TOKEN is "+planted))
		r.Request = podRequest(1)
		f.Put(r)
	}
	records := drain(t, f, &out)
	if len(records) != 2 {
		t.Fatalf("%d records", len(records))
	}
	for i := range records {
		text, err := records[i].Review()
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Request map[string]any }
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err, string(text))
		}
		q := got.Request
		meta := q["object"].(map[string]any)["metadata"].(map[string]any)
		if q["uid"] != "u1" || q["name"] != "p1" || q["namespace"] != "shop" || q["operation"] != "UPDATE" || meta["resourceVersion"] != "2" ||
			!reflect.DeepEqual(q["kind"], map[string]any{"group": "", "version": "v1", "kind": "Pod"}) || !reflect.DeepEqual(q["requestKind"], q["kind"]) ||
			!reflect.DeepEqual(q["resource"], map[string]any{"group": "", "version": "v1", "resource": "pods"}) || !reflect.DeepEqual(q["requestResource"], q["resource"]) ||
			!reflect.DeepEqual(q["userInfo"], map[string]any{"username": "jane", "uid": "7", "groups": []any{"dev"}, "extra": map[string]any{"scopes": []any{"a"}}}) ||
			!reflect.DeepEqual(q["options"], map[string]any{"kind": "UpdateOptions"}) {
			t.Errorf("%s", text)
		}
		if strings.Contains(string(text), planted) || strings.Contains(records[i].Rules[0].Message, planted) {
			t.Errorf("the planted value is in %s or %q", text, records[i].Rules[0].Message)
		}
		want := "/object/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration /object/spec/containers/*/env/*/value " +
			"/oldObject/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration /oldObject/spec/containers/*/env/*/value"
		if got := strings.Join(records[i].Request.Cut, " "); got != want {
			t.Errorf("cut: %s", got)
		}
	}
}

// A text is written once; later records have its digest. A new file does not refer to the previous one.
func TestTextsAreWrittenOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	l, err := OpenLines(path, 8000)
	if err != nil {
		t.Fatal(err)
	}
	f := recording(l)
	for range 20 {
		r := review(false)
		r.Request = podRequest(1)
		if err := l.Write(t.Context(), []Record{f.record(context.Background(), &kept{Review: r, verdict: Refused, share: 1})}); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{path, path + ".1"} {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(string(b), "\n")
		if texts := strings.Count(string(b), `"deflated"`); texts != 3 { // the object, the old object and the options
			t.Errorf("%s: %d texts in %d lines", p, texts, lines)
		}
		n := 0
		if err := Read(bytes.NewReader(b), func(r *Record) bool {
			n++
			if _, err := r.Review(); err != nil {
				t.Error(err)
			}
			return true
		}, func(_ int, err error) { t.Error(err) }); err != nil || n != lines {
			t.Errorf("%d of %d records, %v", n, lines, err)
		}
	}
	b, _ := os.ReadFile(path)
	_, rest, _ := strings.Cut(string(b), "\n")
	if err := Read(strings.NewReader(rest), func(r *Record) bool {
		if _, err := r.Review(); err == nil {
			t.Error("a record whose text is not in the file has a review")
		}
		return false
	}, func(int, error) {}); err != nil {
		t.Error(err)
	}
}

// No byte of a planted value is in records, whatever the request and the form of the value.
func TestPlantedValues(t *testing.T) {
	secret := request("secrets", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","annotations":{"`+lastApplied+`":"{\"stringData\":{\"k\":\"`+planted+`\"}}"}},"data":{"k":"cGxhbnRlZC1acTg="},"stringData":{"k":"`+planted+`"}}`)
	secret.OldObject = secret.Object
	byDefault, err := ParseRedaction(DefaultRedaction)
	if err != nil {
		t.Fatal(err)
	}
	named, err := ParseRedaction([]string{"/spec/containers/*/env/*/value"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		redaction *Redaction
		requests  []*policy.Request
	}{{byDefault, []*policy.Request{secret, podRequest(1), podRequest(2)}}, {named, []*policy.Request{secret, podRequest(1)}}, {nil, []*policy.Request{secret}}} {
		var out, log bytes.Buffer
		f := recording(NewLines(&out))
		f.Redaction, f.Log = c.redaction, slog.New(slog.NewTextHandler(&log, nil))
		for _, req := range c.requests {
			r := review(false, result("p", policy.StatusFail, "it is "+planted), result("p", policy.StatusError, "it is cGxhbnRlZC1acTg="))
			r.Request, r.Message = req, "refused: "+planted
			f.Put(r)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f.Run(ctx)
		said := out.String() + log.String()
		n := 0
		if err := Read(bytes.NewReader(out.Bytes()), func(r *Record) bool {
			n++
			review, err := r.Review()
			if err != nil {
				t.Error(err)
			}
			said += string(review)
			return true
		}, func(_ int, err error) { t.Error(err) }); err != nil || n != len(c.requests) {
			t.Fatalf("%d records, %v", n, err)
		}
		for _, form := range []string{planted, "cGxhbnRlZC1acTg"} {
			if i := strings.Index(said, form); i >= 0 {
				t.Errorf("%q is in %s", form, said[max(0, i-200):min(len(said), i+100)])
			}
		}
	}
}

// A request that is too large or cannot be read is left out; the record itself is kept.
func TestRequestsThatAreNotRecorded(t *testing.T) {
	var out bytes.Buffer
	f := recording(NewLines(&out))
	large, broken := review(false), review(false)
	large.Request, broken.Request = request("pods", `{"a":"`+strings.Repeat("x", maxRequest)+`"}`), request("pods", `{"a":`)
	f.Put(large)
	f.Put(broken)
	for _, r := range drain(t, f, &out) {
		if _, err := r.Review(); err != ErrNoRequest || r.Verdict != Refused {
			t.Errorf("%v, %+v", err, r)
		}
	}
}

// The object of a known request is not copied and compressed again. Secrets are not kept.
func TestKnownParts(t *testing.T) {
	byDefault, err := ParseRedaction(DefaultRedaction)
	if err != nil {
		t.Fatal(err)
	}
	f := recording(NewLines(io.Discard))
	f.Redaction = byDefault
	of := func(req *policy.Request) Record {
		r := review(false, result("p", policy.StatusFail, "it is planted"))
		r.Request = req
		return f.record(t.Context(), &kept{Review: r, verdict: Refused, share: 1})
	}
	pod := func(name string) *policy.Request {
		return request("pods", `{"metadata":{"name":"`+name+`"},"spec":{"containers":[{"env":[{"name":"A","value":"planted"}]}]}}`)
	}
	first, again, other := of(pod("a")), of(pod("a")), of(pod("b"))
	if first.Request.Object != again.Request.Object {
		t.Error("the object is copied again")
	}
	if !slices.Equal(again.Request.Cut, []string{"/object/spec/containers/*/env/*/value"}) || again.Rules[0].Message != "it is "+Redacted {
		t.Errorf("of a known object: %v, %+v", again.Request.Cut, again.Rules)
	}
	if other.Request.Object.Digest == first.Request.Object.Digest {
		t.Error("another object has the same text")
	}
	old := pod("a")
	old.Object, old.OldObject = nil, old.Object
	if got := of(old); !slices.Equal(got.Request.Cut, []string{"/oldObject/spec/containers/*/env/*/value"}) {
		t.Errorf("of a known object that is deleted: %v", got.Request.Cut)
	}
	secret := func() *policy.Request { return request("secrets", `{"data":{"a":"cGxhbnRlZA=="}}`) }
	if a, b := of(secret()), of(secret()); a.Request.Object == b.Request.Object || a.Rules[0].Message != "it is "+Redacted {
		t.Errorf("of a Secret: kept: %v; %+v", a.Request.Object == b.Request.Object, a.Rules)
	}
}

// BenchmarkRecordOfRequest measures a record with its request: a Pod of 7 kB, written as a line.
func BenchmarkRecordOfRequest(b *testing.B) {
	pod, err := os.ReadFile("testdata/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		pods int
	}{{"each another Pod", math.MaxInt}, {"a hundred Pods", 100}} {
		b.Run(c.name, func(b *testing.B) {
			f := recording(NewLines(io.Discard))
			size, i := 0, 0
			store := f.Store.(*Lines)
			b.ReportAllocs()
			for b.Loop() {
				r := review(false, result("p", policy.StatusFail, "no"))
				r.Request = request("pods", strings.Replace(string(pod), "NAME", fmt.Sprint(i%c.pods), 1))
				i++
				line, err := store.encode([]Record{f.record(context.Background(), &kept{Review: r, verdict: Refused, share: 1})})
				if err != nil {
					b.Fatal(err)
				}
				size += len(line)
			}
			b.ReportMetric(float64(size)/float64(i), "bytes/record")
		})
	}
}

// BenchmarkBody measures a stored text: a Pod of 7 kB is compressed, and read again.
func BenchmarkBody(b *testing.B) {
	pod, err := os.ReadFile("testdata/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	body, err := newBody(string(pod))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := newBody(string(pod)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := body.appendText(nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
