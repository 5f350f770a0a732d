package taped

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/apipath"
	"ephor.invalid/ephor/internal/world"
)

// everything is a World with all members. All answers differ, unless err is set.
type everything struct{ err error }

func (e everything) Get(_ context.Context, r world.ObjectRequest) (map[string]any, error) {
	return map[string]any{"kind": r.Kind.Kind, "name": r.Name, "n": int64(1), "f": 1.0, "g": 0.5, "big": 1e300, "null": nil, "list": []any{}}, e.err
}
func (e everything) List(_ context.Context, q world.Query) ([]map[string]any, error) {
	return []map[string]any{{"kind": q.Kind}, {"n": 2.0}}, e.err
}
func (e everything) Find(context.Context, world.Kind) ([]world.Kind, error) {
	return []world.Kind{{APIVersion: "v1", Kind: "Pod"}}, e.err
}
func (e everything) Labels(context.Context, world.NamespaceRequest) (map[string]string, error) {
	return map[string]string{"a": "b"}, e.err
}
func (e everything) Namespace(_ context.Context, name world.NamespaceRequest) (map[string]any, error) {
	return map[string]any{"metadata": map[string]any{"name": string(name)}}, e.err
}
func (e everything) Call(context.Context, world.APIRequest) (any, error) {
	return []any{"x", 1.0, int64(2)}, e.err
}
func (e everything) Global(context.Context, world.GlobalRequest) (any, error) { return "data", e.err }
func (e everything) OfSecrets(name string) bool                               { return name == "secret" }
func (e everything) Image(context.Context, world.ImageRequest) (map[string]any, error) {
	return map[string]any{"registry": "r"}, e.err
}
func (e everything) Digest(context.Context, world.ImageRequest) (string, error) {
	return "sha256:1", e.err
}
func (e everything) Verify(_ context.Context, r world.SignatureRequest) (string, error) {
	if r.Remembered != nil {
		*r.Remembered = true
	}
	return "sha256:2", e.err
}
func (e everything) Statements(context.Context, world.SignatureRequest) (string, []world.Statement, error) {
	return "sha256:3", []world.Statement{{Type: "t", Predicate: map[string]any{"n": 1.0}, Document: int64(7)}}, e.err
}
func (e everything) Blob(context.Context, world.BlobRequest) (string, error) { return "jane", e.err }
func (e everything) Seal(context.Context, string, ...string) (string, error) { return "sealed", e.err }
func (e everything) Sealed(context.Context, string, string, ...string) (bool, error) {
	return true, e.err
}
func (e everything) Allowed(context.Context, world.AccessRequest) (bool, string, error) {
	return true, "because", e.err
}
func (e everything) Namespaced(context.Context, world.Kind) (bool, error) { return true, e.err }
func (e everything) Resource(context.Context, world.Kind) (string, error) { return "pods", e.err }
func (e everything) Served(context.Context, world.ResourceRequest) ([]world.Resource, error) {
	return []world.Resource{{Kind: world.Kind{Kind: "Pod"}, Plural: "pods"}}, e.err
}
func (e everything) LookupHost(context.Context, world.Host) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, e.err
}
func (e everything) Now() time.Time { return time.Unix(1, 0) }
func (e everything) Intn(n int) int { return n - 1 }

func (e everything) For(world.Reach) world.World {
	service := func(context.Context, world.ServiceRequest) (any, error) { return map[string]any{"ok": true}, e.err }
	http := func(context.Context, world.ServiceRequest) (map[string]any, error) {
		return map[string]any{"statusCode": int64(200)}, e.err
	}
	return world.World{
		Objects: e.Get, Lists: e.List, Namespaces: world.Namespaces{Labels: e.Labels, Object: e.Namespace}, API: e.Call, Resources: e.Call,
		Services: service, HTTP: http, Globals: e.Global, GlobalOfSecrets: e.OfSecrets, Images: world.Images{Image: e.Image, Digest: e.Digest},
		Signatures: e, Seals: e, Access: e, Kinds: world.Kinds{Namespaced: e.Namespaced, Find: e.Find, Resource: e.Resource, Served: e.Served},
		Names: e.LookupHost, Clock: e, Rand: e,
	}
}

// askAll makes all kinds of lookups, and returns the answers.
func askAll(w world.World) []any {
	ctx := context.Background()
	remembered := false
	path, _ := apipath.Parse("/api/v1/namespaces/a/configmaps")
	request := world.ServiceRequest{Method: "POST", URL: "https://user:hidden-password@svc/hidden-path?token=hidden-query", Headers: []world.Header{{Name: "Authorization", Value: "hidden-header"}}, Body: map[string]any{"password": "hidden-body"}}
	signature := world.SignatureRequest{Image: "i", For: "p", Remembered: &remembered, Attestor: &world.Attestor{Key: &world.KeyAttestor{PublicKey: strings.Repeat("k", 2000)}}}
	type two struct{ a, b any }
	got := func(v any, err error) any { return two{v, err} }
	allowed, reason, accessErr := w.Access.Allowed(ctx, world.AccessRequest{Username: "u", Extra: map[string][]string{"b": {"1"}, "a": {"2"}}})
	digest, statements, statementsErr := w.Signatures.Statements(ctx, signature)
	return []any{
		got(w.Objects.Get(ctx, "v1", "ConfigMap", "a", "b")), got(w.Lists(ctx, world.Query{APIVersion: "v1", Kind: "Pod"})),
		got(w.Kinds.Find(ctx, world.Kind{APIVersion: "*", Kind: "P*"})), got(w.Namespaces.Labels(ctx, "a")), got(w.Namespaces.Object(ctx, "a")),
		got(w.API(ctx, world.APIRequest{Method: "POST", Path: path, Body: map[string]any{"token": "hidden-token"}})), got(w.Resources(ctx, world.APIRequest{Method: "GET", Path: path})),
		got(w.Services(ctx, request)), got(w.HTTP(ctx, request)), got(w.Globals(ctx, "g")), got(w.Images.Image(ctx, world.ImageRequest{Reference: "r"})),
		got(w.Images.Digest(ctx, world.ImageRequest{Reference: "r"})), got(w.Signatures.Verify(ctx, signature)), two{digest, two{statements, statementsErr}},
		got(w.Signatures.Blob(ctx, world.BlobRequest{Content: []byte("hidden-content")})), got(w.Seals.Seal(ctx, "d", "hidden-part")), got(w.Seals.Sealed(ctx, "hidden-seal", "d", "x")),
		two{allowed, two{reason, accessErr}}, got(w.Kinds.Namespaced(ctx, world.Kind{APIVersion: "v1", Kind: "Pod"})), got(w.Kinds.Resource(ctx, world.Kind{APIVersion: "v1", Kind: "Pod"})),
		got(w.Kinds.Served(ctx, world.ResourceRequest{Version: "v1", Plural: "pods"})), got(w.Names(ctx, "h")), w.Rand.Intn(5), w.Rand.Intn(7), remembered,
	}
}

// recordedOf returns the recorded form of notes.
func recordedOf(t *testing.T, n Notes) Recorded {
	t.Helper()
	reel := Reel{Salt: []byte("salt")}
	for _, e := range n.Entries {
		l := Lookup{Method: e.Method, Reach: e.Reach, Asked: Brief(e.Asked), Digest: Digest(reel.Salt, e.Method, e.Reach, e.Asked, e.Hidden)}
		if e.Err != nil {
			l.Failure = FailureOf(e.Err)
		} else {
			text, err := Text(e.Answer)
			if err != nil {
				t.Fatal(err)
			}
			l.Text = func() ([]byte, error) { return []byte(text), nil }
		}
		if strings.Contains(l.Asked, "hidden") {
			t.Errorf("%s shows what may be a credential: %s", l.Method, l.Asked)
		}
		reel.Lookups = append(reel.Lookups, l)
	}
	return Recorded{Reels: []Reel{reel}, Lacks: n.Lacks, Time: time.Unix(5, 0), Absent: "it was not looked up"}
}

func TestEveryLookupIsAnsweredAgain(t *testing.T) {
	for name, err := range map[string]error{
		"answers":        nil,
		"not found":      fmt.Errorf("get: %w", apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "x")),
		"not supported":  apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "pods"}, "list"),
		"path":           &world.PathError{Path: "/api", Namespace: "a"},
		"kind":           &world.NoKindError{APIVersion: "v1", Kind: "X"},
		"global":         &world.NoGlobalError{Message: "none"},
		"projection":     &world.NoProjectionError{Entry: "e", Projection: "p"},
		"image":          fmt.Errorf("read: %w", &world.NoImageError{Reason: "gone"}),
		"unverified":     &world.UnverifiedError{Reason: "no signature"},
		"unavailable":    fmt.Errorf("images are %w", world.ErrUnavailable),
		"time":           fmt.Errorf("call: %w", context.DeadlineExceeded),
		"another error":  errors.New("?"),
		"an ended query": context.Canceled,
	} {
		tape := New()
		want := askAll(tape.Root(everything{err}).For(world.Cluster()))
		notes := tape.Close()
		if len(notes.Lacks) > 0 {
			t.Error(name, notes.Lacks)
		}
		replay := Replay(recordedOf(t, notes))
		got := askAll(replay.Root(nil).For(world.Cluster()))
		if len(replay.Missing()) > 0 {
			t.Fatalf("%s: %+v", name, replay.Missing())
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("\n%#v\n%#v", got, want)
		}
		if err == nil {
			continue
		}
		_, again := replay.Root(nil).For(world.Cluster()).Objects.Get(t.Context(), "v1", "ConfigMap", "a", "b")
		if again == nil || again.Error() != err.Error() || apierrors.IsNotFound(again) != apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(again) != apierrors.IsMethodNotSupported(err) ||
			FailureOf(again).Cause != FailureOf(err).Cause || !reflect.DeepEqual(FailureOf(again).Args, FailureOf(err).Args) {
			t.Errorf("%s: %v is not %v", name, again, err)
		}
		for _, is := range []error{world.ErrUnavailable, context.DeadlineExceeded, context.Canceled} {
			if errors.Is(again, is) != errors.Is(err, is) {
				t.Errorf("%s: is %v: %v", name, is, errors.Is(again, is))
			}
		}
	}
}

// A lookup that was not made has no answer: another reach, another object, another hidden part, one more random number.
func TestWhatIsNotOnTheTapeIsMissing(t *testing.T) {
	tape := New()
	w := tape.Root(everything{}).For(world.Cluster())
	service := world.ServiceRequest{Method: "GET", URL: "https://svc/a"}
	_, _ = w.Objects.Get(t.Context(), "v1", "ConfigMap", "a", "b")
	_, _ = w.Services(t.Context(), service)
	w.Rand.Intn(5)
	recorded := recordedOf(t, tape.Close())
	for name, ask := range map[string]func(world.Root){
		"another object": func(r world.Root) {
			_, _ = r.For(world.Cluster()).Objects.Get(context.Background(), "v1", "ConfigMap", "a", "c")
		},
		"another reach": func(r world.Root) {
			_, _ = r.For(world.InNamespace("a")).Objects.Get(context.Background(), "v1", "ConfigMap", "a", "b")
		},
		"another path": func(r world.Root) {
			_, _ = r.For(world.Cluster()).Services(context.Background(), world.ServiceRequest{Method: "GET", URL: "https://svc/b"})
		},
		"another header": func(r world.Root) {
			s := service
			s.Headers = []world.Header{{Name: "A", Value: "b"}}
			_, _ = r.For(world.Cluster()).Services(context.Background(), s)
		},
		"one number more": func(r world.Root) {
			w := r.For(world.Cluster())
			w.Rand.Intn(5)
			w.Rand.Intn(5)
		},
		"another range": func(r world.Root) { r.For(world.Cluster()).Rand.Intn(6) },
	} {
		replay := Replay(recorded)
		ask(replay.Root(nil))
		if missing := replay.Missing(); len(missing) != 1 || missing[0].Why != "it was not looked up" || replay.Lived() {
			t.Errorf("%s: %+v", name, missing)
		}
		recorded.Live = true
		replay = Replay(recorded)
		ask(replay.Root(everything{}))
		if len(replay.Missing()) > 0 || !replay.Lived() {
			t.Errorf("%s, with a cluster: %+v", name, replay.Missing())
		}
		recorded.Live = false
	}
	if now := Replay(recorded).Root(nil).For(world.Cluster()).Clock.Now(); !now.Equal(time.Unix(5, 0)) {
		t.Error("the clock shows", now)
	}
}

// has returns the members that a World has.
func has(w world.World) map[string]bool {
	out := map[string]bool{"Clock": w.Clock != nil, "Rand": w.Rand != nil}
	w.Through(nil, func(member string, has bool) bool {
		out[member] = has
		return has
	})
	return out
}

// A World has the same members with and without a tape, and when it is replayed.
func TestMembers(t *testing.T) {
	full := everything{}.For(world.Cluster())
	for name, change := range map[string]func(*world.World){
		"all":            func(*world.World) {},
		"none":           func(w *world.World) { *w = world.World{} },
		"no services":    func(w *world.World) { w.Services, w.Globals, w.HTTP = nil, nil, nil },
		"no kinds found": func(w *world.World) { w.Kinds.Find = nil },
		"labels only":    func(w *world.World) { w.Namespaces.Object = nil },
		"no digests":     func(w *world.World) { w.Images.Digest = nil },
		"scopes only":    func(w *world.World) { w.Kinds.Resource, w.Kinds.Served = nil, nil },
		"no signatures":  func(w *world.World) { w.Signatures, w.Seals, w.Access = nil, nil, nil },
	} {
		w := full
		change(&w)
		root := world.RootFunc(func(world.Reach) world.World { return w })
		tape := New()
		on := tape.Root(root).For(world.InNamespace("a"))
		again := Replay(recordedOf(t, tape.Close())).Root(nil).For(world.InNamespace("a"))
		if want := has(w); !reflect.DeepEqual(has(on), want) || !reflect.DeepEqual(has(again), want) {
			t.Errorf("%s:\n%v\n%v\n%v", name, want, has(on), has(again))
		}
	}
	var none *Tape
	root := everything{}
	if got := none.Root(root); got != world.Root(root) || none.Missing() != nil || none.Lived() || len(none.Close().Entries) > 0 {
		t.Error("the nil tape is not nothing")
	}
}

// All goroutines of a review use one tape. Equal lookups are recorded once, and one with a different answer is marked.
func TestConcurrentLookups(t *testing.T) {
	tape := New()
	var mu sync.Mutex
	n := 0
	next := func(context.Context) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		return n, nil
	}
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			w := tape.Root(everything{}).For(world.Cluster())
			for k := range 50 {
				_, _ = w.Objects.Get(t.Context(), "v1", "ConfigMap", "a", fmt.Sprint(k))
				w.Rand.Intn(5)
			}
			_, _ = AnswerOrCall(t.Context(), tape, Labels, "steady", func(context.Context) (int, error) { return 1, nil })
			if i < 2 {
				_, _ = AnswerOrCall(t.Context(), tape, Labels, "unsteady", next)
			}
		})
	}
	running.Wait()
	notes := tape.Close()
	seen := map[string]int{}
	for _, e := range notes.Entries {
		seen[e.Method+e.Asked]++
		if e.Unsteady != (e.Asked == "unsteady") {
			t.Errorf("%s: unsteady %v", e.Asked, e.Unsteady)
		}
	}
	for key, n := range seen {
		if n != 1 {
			t.Errorf("%s is noted %d times", key, n)
		}
	}
	if !notes.Clipped || len(notes.Entries) != maxEntries {
		t.Errorf("%d entries, clipped: %v", len(notes.Entries), notes.Clipped)
	}
	_, _ = tape.Root(everything{}).For(world.Cluster()).Objects.Get(t.Context(), "v1", "ConfigMap", "a", "late")
	if again := tape.Close(); len(again.Entries) != maxEntries {
		t.Error("a closed tape takes notes")
	}
	replay := Replay(recordedOf(t, notes))
	for range 4 {
		running.Go(func() {
			w := replay.Root(nil).For(world.Cluster())
			for k := range 60 {
				_, _ = w.Objects.Get(t.Context(), "v1", "ConfigMap", "a", fmt.Sprint(k))
			}
		})
	}
	running.Wait()
}

// For several reviews of a request, an answer of any of them is known, different answers to one lookup are not used, and random numbers form
// one sequence.
func TestReelsOfOneRequest(t *testing.T) {
	note := func(answer any, more string) Reel {
		tape := New()
		_, _ = AnswerOrCall(t.Context(), tape, Labels, "a", func(context.Context) (any, error) { return answer, nil })
		_, _ = AnswerOrCall(t.Context(), tape, Labels, more, func(context.Context) (any, error) { return more, nil })
		tape.Root(everything{}).For(world.Cluster()).Rand.Intn(9)
		reel := recordedOf(t, tape.Close()).Reels[0]
		for i := range reel.Lookups {
			text, _ := reel.Lookups[i].Text()
			reel.Lookups[i].Version = string(text)
		}
		return reel
	}
	never := func(context.Context) (any, error) { return nil, errors.New("asked") }
	for name, c := range map[string]struct {
		second any
		misses int
	}{"equal answers": {"x", 0}, "different answers": {"y", 1}} {
		replay := Replay(Recorded{Reels: []Reel{note("x", "b"), note(c.second, "c")}, Unsteady: "several"})
		for _, asked := range []string{"a", "b", "c"} {
			v, err := AnswerOrCall(t.Context(), replay, Labels, asked, never)
			if asked != "a" && (err != nil || v != asked) {
				t.Errorf("%s: %s: %v, %v", name, asked, v, err)
			}
		}
		w := replay.Root(nil).For(world.Cluster())
		if first, second := w.Rand.Intn(9), w.Rand.Intn(9); first != 8 || second != 8 {
			t.Errorf("%s: numbers %d and %d", name, first, second)
		}
		if got := replay.Missing(); len(got) != c.misses || c.misses > 0 && got[0].Why != "several" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
