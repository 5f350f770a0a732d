package decision

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/apipath"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/taped"
)

// lookedUpSecret is in every Secret of the tests, and must not be in any record.
const lookedUpSecret = "lookedUpSecret-VALUE-7"

// answering is a world that gives the same answer to all lookups.
type answering struct {
	answer any
	err    error
}

func (a answering) Get(context.Context, world.ObjectRequest) (map[string]any, error) {
	m, _ := a.answer.(map[string]any)
	return m, a.err
}
func (a answering) List(context.Context, world.Query) ([]map[string]any, error) {
	m, _ := a.answer.([]map[string]any)
	return m, a.err
}
func (a answering) Global(context.Context, world.GlobalRequest) (any, error) { return a.answer, a.err }
func (a answering) OfSecrets(name string) bool                               { return strings.HasPrefix(name, "secret") }
func (a answering) Call(context.Context, world.APIRequest) (any, error)      { return a.answer, a.err }
func (a answering) Allowed(context.Context, world.AccessRequest) (bool, string, error) {
	return true, fmt.Sprint(a.answer), a.err
}

func (a answering) For(world.Reach) world.World {
	call := func(context.Context, world.ServiceRequest) (any, error) { return a.answer, a.err }
	return world.World{Objects: a.Get, Lists: a.List, Globals: a.Global, GlobalOfSecrets: a.OfSecrets, API: a.Call, Services: call, Access: a}
}

// recordOf returns the record of a review whose rules looked things up, and all of its texts: JSON, protobuf, and every compressed text.
func recordOf(t *testing.T, o Options, message string, look func(tape *taped.Tape)) (Record, string) {
	t.Helper()
	o.Store, o.Capacity, o.Requests, o.Observer, o.Log = discarding{}, 1, true, &counter{}, slog.New(slog.NewTextHandler(io.Discard, nil))
	if o.Users == "" {
		o.Users = NameUsers
	}
	f := NewFeed(o)
	tape := taped.New()
	look(tape)
	req := &policy.Request{Review: policy.Review{
		UID: "1", Operation: policy.Create, Namespace: "shop", Name: "web", User: &policy.User{Username: "jane@example.com", UID: "uid-of-jane", Groups: []string{"payments", "system:authenticated"}},
		Object: value.FromJSON(`{"metadata":{"name":"web"}}`), Tape: tape,
	}}
	req.GVR.Resource, req.GVR.Version, req.RequestGVK.Kind, req.RequestGVK.Version = "pods", "v1", "Pod", "v1"
	f.Put(Review{Request: req, Decision: policy.Decision{Message: message}, At: time.Unix(1, 0)})
	r := f.record(t.Context(), <-f.queue)
	if r.Request == nil || r.Request.Lookups == nil {
		t.Fatalf("no lookups are recorded: %+v", r)
	}
	line, err := r.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	wire, err := AppendBatch(nil, BatchID{}, []Record{r})
	if err != nil {
		t.Fatal(err)
	}
	all := string(line) + string(wire)
	for _, b := range r.Request.Bodies() {
		text, err := b.appendText(nil)
		if err != nil {
			t.Fatal(err)
		}
		all += string(text)
	}
	return r, all
}

type discarding struct{}

func (discarding) Write(context.Context, []Record) error { return nil }
func (discarding) Close() error                          { return nil }

// Values of Secrets, tokens and values that --redact selects are nowhere in a record, whichever answer, error or question they were in. The
// lookup is marked.
func TestSecretsInLookups(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte(lookedUpSecret))
	data := map[string]any{"password": encoded}
	secret := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s"}, "data": data}
	item := map[string]any{"metadata": map[string]any{"name": "s"}, "data": data}
	applied := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "annotations": map[string]any{lastApplied: `{"stringData":{"x":"` + lookedUpSecret + `"}}`}}}
	pod := map[string]any{"kind": "Pod", "metadata": map[string]any{"name": "p"}, "spec": map[string]any{"containers": []any{map[string]any{"env": []any{map[string]any{"name": "A", "value": lookedUpSecret}}}}}}
	at := func(text string) apipath.Path {
		p, err := apipath.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	get := func(kind string, answer map[string]any) func(*taped.Tape) {
		return func(tape *taped.Tape) {
			_, _ = tape.Root(answering{answer, nil}).For(world.Cluster()).Objects.Get(t.Context(), "v1", kind, "a", "b")
		}
	}
	call := func(path string, answer any) func(*taped.Tape) {
		return func(tape *taped.Tape) {
			_, _ = tape.Root(answering{answer, nil}).For(world.Cluster()).API(t.Context(), world.APIRequest{Method: "GET", Path: at(path)})
		}
	}
	service := func(a answering, r world.ServiceRequest) func(*taped.Tape) {
		return func(tape *taped.Tape) {
			r.Method = "POST"
			_, _ = tape.Root(a).For(world.Cluster()).Services(t.Context(), r)
		}
	}
	both := func(looks ...func(*taped.Tape)) func(*taped.Tape) {
		return func(tape *taped.Tape) {
			for _, look := range looks {
				look(tape)
			}
		}
	}
	ok := map[string]any{"ok": true}
	for name, c := range map[string]struct {
		look func(*taped.Tape)
		want string // the reason why each answer is not recorded
	}{
		"a Secret with a short value": {get("Secret", map[string]any{"kind": "Secret", "apiVersion": "v1", "stringData": map[string]any{"pin": "123"}}), "cut"},
		"two answers to one question": {both(get("ConfigMap", ok), get("ConfigMap", map[string]any{"ok": false})), "unsteady"},
		"one answer twice":            {both(get("ConfigMap", ok), get("ConfigMap", map[string]any{"ok": true})), ""},
		"a Secret":                    {get("Secret", secret), "cut"},
		"its copy by kubectl":         {get("Secret", applied), "cut"},
		"a Secret without its kind":   {get("Secret", item), "cut"},
		"a list":                      {call("/api/v1/secrets", map[string]any{"kind": "SecretList", "apiVersion": "v1", "items": []any{item, item}}), "cut"},
		"a list without kinds":        {call("/api/v1/namespaces/a/secrets", map[string]any{"items": []any{item}}), "cut"},
		"a list of several kinds":     {call("/apis/x.io/v1/things", map[string]any{"kind": "List", "items": []any{ok, secret}}), "cut"},
		"inside of another object":    {call("/apis/x.io/v1/things/a", map[string]any{"kind": "Thing", "spec": map[string]any{"template": secret}}), "cut"},
		"a token":                     {call("/api/v1/namespaces/a/serviceaccounts/b/token", map[string]any{"kind": "TokenRequest", "status": map[string]any{"token": lookedUpSecret}}), "cut"},
		"a review of a token":         {call("/apis/authentication.k8s.io/v1/tokenreviews", map[string]any{"kind": "TokenReview", "spec": map[string]any{"token": lookedUpSecret}}), "cut"},
		"what --redact names":         {get("Pod", pod), "cut"},
		"what --redact names, a list": {call("/api/v1/pods", map[string]any{"items": []any{pod}}), "cut"},
		"objects by a query": {func(tape *taped.Tape) {
			_, _ = tape.Root(answering{[]map[string]any{item}, nil}).For(world.Cluster()).Lists(t.Context(), world.Query{APIVersion: "v1", Kind: "Secret"})
		}, "cut"},
		"a global entry of Secrets": {func(tape *taped.Tape) {
			_, _ = tape.Root(answering{[]any{item}, nil}).For(world.Cluster()).Globals(t.Context(), "secrets")
		}, "cut"},
		"its projection": {func(tape *taped.Tape) {
			_, _ = tape.Root(answering{[]any{lookedUpSecret}, nil}).For(world.Cluster()).Globals(t.Context(), "secrets.values")
		}, "cut"},
		"an answer that quotes it": {both(get("Secret", secret), service(answering{map[string]any{"echo": "it is " + lookedUpSecret + "!"}, nil}, world.ServiceRequest{URL: "https://svc/"})), "cut cut"},
		"an answer before it":      {both(service(answering{encoded, nil}, world.ServiceRequest{URL: "https://svc/"}), get("Secret", secret)), "cut cut"},
		"an error that quotes it":  {both(get("Secret", secret), service(answering{nil, errors.New("no: " + lookedUpSecret)}, world.ServiceRequest{URL: "https://svc/"})), "cut cut"},
		"a question with it": {both(get("Secret", secret), call("/api/v1/namespaces/"+strings.ToLower(lookedUpSecret), ok), get("ConfigMap", ok), func(tape *taped.Tape) {
			_, _ = taped.AnswerOrCall(t.Context(), tape, taped.Labels, lookedUpSecret, func(context.Context) (any, error) { return nil, nil })
		}), "cut   cut"},
		"a header":                {service(answering{ok, nil}, world.ServiceRequest{URL: "https://svc/", Headers: []world.Header{{Name: "Authorization", Value: lookedUpSecret}}}), ""},
		"a header that is quoted": {service(answering{"for " + lookedUpSecret, nil}, world.ServiceRequest{URL: "https://svc/", Headers: []world.Header{{Name: "Authorization", Value: lookedUpSecret}}}), "cut"},
		"a body":                  {service(answering{ok, nil}, world.ServiceRequest{URL: "https://svc/", Body: map[string]any{"password": lookedUpSecret}}), ""},
		"an address":              {service(answering{ok, nil}, world.ServiceRequest{URL: "https://user:" + lookedUpSecret + "@svc/" + lookedUpSecret + "?t=" + lookedUpSecret}), ""},
		"an address in an error":  {service(answering{nil, errors.New("Post https://svc/x?t=" + lookedUpSecret + ": refused")}, world.ServiceRequest{URL: "https://svc/x?t=" + lookedUpSecret}), "cut"},
		"nothing secret":          {both(get("ConfigMap", ok), call("/api/v1/pods", ok), service(answering{ok, nil}, world.ServiceRequest{URL: "https://svc/x"})), "  "},
		"an error of a Secret": {func(tape *taped.Tape) {
			_, _ = tape.Root(answering{nil, errors.New("forbidden")}).For(world.Cluster()).Objects.Get(t.Context(), "v1", "Secret", "a", "b")
		}, ""},
	} {
		redaction, err := ParseRedaction(DefaultRedaction)
		if err != nil {
			t.Fatal(err)
		}
		message := "no"
		if strings.HasPrefix(c.want, "cut") && !strings.HasPrefix(name, "a header") && !strings.HasPrefix(name, "an address") && !strings.HasPrefix(name, "what --redact") && !strings.HasSuffix(name, "short value") {
			message = "because of " + lookedUpSecret + " and " + encoded
		}
		r, all := recordOf(t, Options{Redaction: redaction}, message, c.look)
		for _, text := range []string{lookedUpSecret, encoded, strings.TrimRight(encoded, "=")} {
			if strings.Contains(all, text) {
				t.Errorf("%s: %q is in the record: %s", name, text, all)
			}
		}
		var got []string
		for _, x := range r.Request.Lookups.List {
			got = append(got, x.Unknown)
			if known := x.Answer != nil || x.Error != nil; known == (x.Unknown != "") {
				t.Errorf("%s: %+v", name, x)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", name, strings.Join(got, " "), c.want)
		}
	}
}

// Records without the names of users do not have them in lookups either.
func TestLookupsOfUnnamedUsers(t *testing.T) {
	look := func(tape *taped.Tape) {
		w := tape.Root(answering{map[string]any{"user": "jane@example.com"}, nil}).For(world.Cluster())
		_, _, _ = w.Access.Allowed(t.Context(), world.AccessRequest{Username: "jane@example.com", Groups: []string{"payments"}})
		_, _ = w.API(t.Context(), world.APIRequest{Method: "GET"})
		_, _ = taped.AnswerOrCall(t.Context(), tape, taped.Roles, taped.RolesOf("jane@example.com", nil, "shop"), func(context.Context) (policy.Roles, error) { return policy.Roles{}, nil })
		_, _ = w.Services(t.Context(), world.ServiceRequest{URL: "https://svc", Body: "jane@example.com"})
		w = tape.Root(answering{map[string]any{"group": "payments"}, nil}).For(world.Cluster())
		_, _ = w.Objects.Get(t.Context(), "v1", "ConfigMap", "a", "b")
		w = tape.Root(answering{map[string]any{"group": "system:authenticated"}, nil}).For(world.Cluster())
		_, _ = w.Objects.Get(t.Context(), "v1", "ConfigMap", "a", "c")
	}
	for users, want := range map[Users]string{NameUsers: "     ", HashUsers: "cut cut cut cut cut ", OmitUsers: "cut cut cut cut cut "} {
		r, all := recordOf(t, Options{Users: users}, "no", look)
		var got []string
		for _, x := range r.Request.Lookups.List {
			got = append(got, x.Unknown)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q", users, strings.Join(got, " "))
		}
		for _, text := range []string{"jane@example.com", "payments", "uid-of-jane"} {
			if users != NameUsers && strings.Contains(all, text) {
				t.Errorf("%s: the record names %s: %s", users, text, all)
			}
		}
	}
}

// The size and number of answers and the number of lookups are bounded. Omissions are marked.
func TestBoundsOfLookups(t *testing.T) {
	look := func(n, size int) func(*taped.Tape) {
		return func(tape *taped.Tape) {
			for i := range n {
				text := strings.Repeat(fmt.Sprint(i%10), size)
				_, _ = tape.Root(answering{map[string]any{"data": text}, nil}).For(world.Cluster()).Objects.Get(t.Context(), "v1", "ConfigMap", "a", fmt.Sprint(i))
			}
		}
	}
	for name, c := range map[string]struct {
		n, size, known, large int
		clipped               bool
	}{
		"small":           {3, 10, 3, 0, false},
		"one too large":   {1, maxAnswer, 0, 1, false},
		"together":        {8, 200 << 10, 5, 3, false},
		"many":            {300, 1, 256, 0, true},
		"many, all large": {300, 200 << 10, 5, 251, true},
	} {
		r, _ := recordOf(t, Options{}, "no", look(c.n, c.size))
		known, large := 0, 0
		for _, x := range r.Request.Lookups.List {
			switch {
			case x.Answer != nil:
				known++
			case x.Unknown == LargeAnswer:
				large++
			}
		}
		if known != c.known || large != c.large || r.Request.Lookups.Clipped != c.clipped {
			t.Errorf("%s: %d known, %d large, clipped: %v", name, known, large, r.Request.Lookups.Clipped)
		}
		tape := Tape([]*Lookups{r.Request.Lookups}, time.Unix(1, 0), false)
		if _, err := tape.Root(nil).For(world.Cluster()).Objects.Get(t.Context(), "v1", "ConfigMap", "a", "299"); err == nil || len(tape.Missing()) != 1 {
			t.Errorf("%s: what is not recorded is answered", name)
		} else if why := tape.Missing()[0].Why; c.clipped != (why == absentClipped) {
			t.Errorf("%s: %s", name, why)
		}
	}
	// There are too many values of Secrets to search for: no other texts are recorded, not even messages.
	r, all := recordOf(t, Options{}, "because of "+lookedUpSecret, func(tape *taped.Tape) {
		data := map[string]any{"x": lookedUpSecret}
		for i := range maxSecretTexts {
			data[fmt.Sprint(i)] = fmt.Sprintf("value %d", i)
		}
		_, _ = tape.Root(answering{map[string]any{"data": data, "metadata": map[string]any{}}, nil}).For(world.Cluster()).Objects.Get(t.Context(), "v1", "Secret", "a", "b")
		_, _ = tape.Root(answering{map[string]any{"x": lookedUpSecret}, nil}).For(world.Cluster()).Objects.Get(t.Context(), "v1", "ConfigMap", "a", "b")
	})
	if strings.Contains(all, lookedUpSecret) || r.Message != Redacted {
		t.Errorf("the record holds the value: %s", all)
	}
}
