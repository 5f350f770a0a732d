package impact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/policy"
)

type uncounted struct{}

func (uncounted) DecisionKept(string)  {}
func (uncounted) DecisionsDropped(int) {}

// recordingTo returns a Feed that records everything, including requests, with the default redaction.
func recordingTo(w io.Writer) *decision.Feed { return feedTo(decision.NewLines(w)) }

func feedTo(s decision.Store) *decision.Feed {
	redaction, err := decision.ParseRedaction(decision.DefaultRedaction)
	if err != nil {
		panic(err)
	}
	return decision.NewFeed(decision.Options{
		Store: s, Keep: decision.Keep{Share: 1}, Capacity: 10_000, Users: decision.NameUsers, Requests: true, Redaction: redaction, Observer: uncounted{},
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
}

// reviewed returns a refused review, since these are always recorded.
func reviewed(t testing.TB, text string, at time.Time) decision.Review {
	t.Helper()
	req, err := admission.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return decision.Review{Request: req, Webhook: "ValidatingWebhookConfiguration", Decision: policy.Decision{Message: "no"}, At: at}
}

func concat[T any](seqs ...iter.Seq[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, s := range seqs {
			for x := range s {
				if !yield(x) {
					return
				}
			}
		}
	}
}

// recorded is a recorded review of a request.
type recorded struct {
	second, took                   int
	webhook, user, operation, name string
	object, old                    string // digests
	policies                       string
	refused                        bool
}

func (r recorded) decided() Decided {
	body := func(digest string) *decision.Body {
		if digest == "" {
			return nil
		}
		return &decision.Body{Digest: digest}
	}
	d := &decision.Record{
		Time: time.Unix(int64(r.second), 0), Duration: time.Duration(r.took) * time.Second, Webhook: r.webhook + "WebhookConfiguration", User: r.user, Operation: r.operation, Kind: "Pod", Version: "v1",
		Namespace: "shop", Name: r.name, Allowed: !r.refused, Share: 1,
		Request: &decision.Request{Version: "v1", Resource: "pods", Object: body(r.object), OldObject: body(r.old)},
	}
	for p := range strings.FieldsSeq(r.policies) {
		d.Rules = append(d.Rules, decision.Result{Policy: p, Rule: "r"})
	}
	return Decided{At: fmt.Sprint(r.second), Record: d}
}

// The reviews of one request by several webhooks count as one request. Separate requests that are similar count separately.
func TestReviewsOfOneRequest(t *testing.T) {
	m := func(second int, name, object, policies string) recorded {
		return recorded{second: second, webhook: "Mutating", user: "jane", operation: "CREATE", name: name, object: object, policies: policies}
	}
	v := func(second int, name, object, policies string) recorded {
		r := m(second, name, object, policies)
		r.webhook = "Validating"
		return r
	}
	with := func(r recorded, change func(*recorded)) recorded { change(&r); return r }
	for name, c := range map[string]struct {
		records []recorded
		want    string // the seconds of the reviews of separate requests; a question mark follows if this is uncertain
	}{
		"one webhook":                {[]recorded{v(1, "p", "a", "x")}, "1"},
		"two webhooks":               {[]recorded{v(1, "p", "a", "x"), v(2, "p", "a", "y")}, "1"},
		"mutating, then validating":  {[]recorded{m(1, "p", "a", "x"), m(2, "p", "b", "y"), v(3, "p", "c", "x")}, "1"},
		"written in another order":   {[]recorded{v(2, "p", "c", "x"), m(1, "p", "a", "x")}, "1"},
		"asked again for a change":   {[]recorded{m(1, "p", "a", "x"), m(2, "p", "b", "x"), v(3, "p", "b", "x")}, "1 2?"},
		"a pause":                    {[]recorded{m(1, "p", "a", "x"), m(3, "p", "b", "y"), v(4, "p", "c", "x"), v(9, "p", "c", "y")}, "1 3?"},
		"a slow answer":              {[]recorded{with(m(1, "p", "a", "x"), func(r *recorded) { r.took = 2 }), v(4, "p", "c", "x")}, "1"},
		"the same request twice":     {[]recorded{v(1, "p", "a", "x"), v(2, "p", "a", "x")}, "1 2"},
		"both webhooks twice":        {[]recorded{m(1, "p", "a", "x"), v(2, "p", "a", "x"), m(3, "p", "a", "x"), v(4, "p", "a", "x")}, "1 3"},
		"another object":             {[]recorded{v(1, "p", "a", "x"), v(2, "p", "b", "y")}, "1 2"},
		"another name":               {[]recorded{v(1, "p", "a", "x"), v(2, "q", "a", "y")}, "1 2"},
		"another user":               {[]recorded{v(1, "p", "a", "x"), with(v(2, "p", "a", "y"), func(r *recorded) { r.user = "joe" })}, "1 2"},
		"another old object":         {[]recorded{v(1, "p", "a", "x"), with(v(2, "p", "a", "y"), func(r *recorded) { r.old = "o" })}, "1 2"},
		"much later":                 {[]recorded{m(1, "p", "a", "x"), v(60, "p", "a", "x")}, "1 60"},
		"refused by mutating":        {[]recorded{with(m(1, "p", "a", "x"), func(r *recorded) { r.refused = true }), v(2, "p", "b", "y")}, "1 2"},
		"a name that is made":        {[]recorded{m(1, "web-*", "a", "x"), v(2, "web-ab1de", "b", "x")}, "1"},
		"two names that are made":    {[]recorded{m(1, "web-*", "a", "x"), m(2, "web-*", "a", "x"), v(3, "web-ab1de", "b", "x"), v(4, "web-zz9zz", "c", "x"), v(5, "web-ab1de", "b", "y")}, "1 2 4?"},
		"a name that is another one": {[]recorded{m(1, "web-*", "a", "x"), v(2, "webs-ab1de", "b", "x")}, "1 2"},
		"a record without a request": {[]recorded{v(1, "p", "a", "x"), with(v(2, "p", "a", "y"), func(r *recorded) { r.webhook = "-" })}, "1 2"},
	} {
		var all []Decided
		for _, r := range c.records {
			d := r.decided()
			if r.webhook == "-" {
				d.Record.Request = nil
			}
			all = append(all, d)
		}
		var got []string
		for r := range Decisions(time.Time{}, slices.Values(all)) {
			switch {
			case errors.Is(r.Err, ErrAlike):
				got = append(got, r.At+"?")
			case !errors.Is(r.Err, ErrSameRequest):
				got = append(got, r.At)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// Several files are read in parallel, in the order of the times. Records from before the given time are left out.
func TestFilesAreMerged(t *testing.T) {
	of := func(seconds ...int) iter.Seq[Decided] {
		var out []Decided
		for _, s := range seconds {
			out = append(out, recorded{second: s, webhook: "Validating", operation: "CREATE", name: fmt.Sprint("p", s), object: "a"}.decided())
		}
		return slices.Values(out)
	}
	failed := Decided{At: "broken", Err: errors.New("?")}
	var got []string
	for r := range Decisions(time.Unix(20, 0), of(10, 40, 50, 90), slices.Values([]Decided{failed}), of(30, 20, 60), of()) {
		got = append(got, r.At)
	}
	if strings.Join(got, " ") != "broken 20 30 40 50 60 90" {
		t.Error(got)
	}
	for range Decisions(time.Time{}, of(1, 2, 3), of(4)) {
		break
	}
}

const envPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: %s}
spec:
  background: false
  validationFailureAction: Enforce
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Pod]}}]}
    %s`

// A request is not answered if a policy reads a value that was cut. It is answered if the policies read other fields.
func TestCutValues(t *testing.T) {
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"shop","labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"nginx","env":[{"name":"TOKEN","value":"planted"}]}]}}`
	for name, c := range map[string]struct {
		rule string
		want string
	}{
		"another field":    {`validate: {message: m, pattern: {spec: {containers: [{image: "!nginx"}]}}}`, "refused"},
		"labels":           {`validate: {message: m, pattern: {metadata: {labels: {team: "?*"}}}}`, "refused"},
		"the value":        {`validate: {message: m, pattern: {spec: {containers: [{"=(env)": [{value: "?????*"}]}]}}}`, "cut"},
		"the names of env": {`validate: {message: m, pattern: {spec: {containers: [{"=(env)": [{name: "!TOKEN"}]}]}}}`, "refused"},
		"the value, in a query": {`validate: {message: m, deny: {conditions: {any: [{key: "{{ request.object.spec.containers[].env[].value }}", operator: AnyIn, value: [x]}]}}}`,
			"cut"},
		"the object in CEL": {`validate: {cel: {expressions: [{expression: "object.spec.containers.all(c, !has(c.env) || c.env.all(e, e.value != 'x'))", message: m}]}}`, "cut"},
		"a label in CEL":    {`validate: {cel: {expressions: [{expression: "'team' in object.metadata.labels", message: m}]}}`, "refused"},
		"a mutation":        {`mutate: {patchStrategicMerge: {metadata: {labels: {team: x}}}}`, "changed, assumed"},
	} {
		var lines bytes.Buffer
		feed := recordingTo(&lines)
		feed.Put(reviewed(t, reviewText(pod), time.Unix(1, 0)))
		ctx, stop := context.WithCancel(t.Context())
		stop()
		feed.Run(ctx)
		programs := compileAll(t, []string{fmt.Sprintf(envPolicy, "p", c.rule)})
		if len(programs) != 1 {
			t.Fatalf("%s: the policy has a mistake", name)
		}
		after := NewReplica(programs, Options{})
		counted := NewCollector(after, nil, 5)
		if err := Run(t.Context(), Decisions(time.Time{}, DecisionFile("f", &lines)), after, nil, counted); err != nil {
			t.Fatal(err)
		}
		r := counted.Report(t.Context(), Facts{})
		var got []string
		if r.After.Refused > 0 {
			got = append(got, "refused")
		}
		if r.After.Changed > 0 {
			got = append(got, "changed")
		}
		if counted.lacks.cut > 0 {
			got = append(got, "cut")
		}
		if counted.lacks.assumed > 0 {
			got = append(got, "assumed")
		}
		if strings.Join(got, ", ") != c.want || r.Records != 1 {
			t.Errorf("%s: %v, want %s; %+v", name, got, c.want, r.Lacks)
		}
	}
}

// For policies that only validate, the fields that they read are decoded. The verdict is the same as for the whole object, also together with
// other policies. If a rule changes objects, the whole object is decoded.
func TestOnlyWhatIsReadIsDecoded(t *testing.T) {
	const head = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: %s}\nspec:\n  rules:\n  - name: r\n    match: {any: [{resources: {kinds: [Pod]}}]}\n"
	one := fmt.Sprintf(head, "one") + "    validate: {failureAction: Enforce, message: refused, pattern: {spec: {hostNetwork: false}}}\n"
	other := fmt.Sprintf(head, "other") + "    validate: {failureAction: Enforce, message: refused, pattern: {spec: {hostPID: false}}}\n"
	change := fmt.Sprintf(head, "change") + "    mutate: {patchStrategicMerge: {metadata: {labels: {+(a): b}}}}\n"
	review := reviewText(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"shop"},"spec":{"hostNetwork":true,"hostPID":true,"nodeName":"n"}}`)
	for name, c := range map[string]struct {
		after, before []string
		has           string
	}{
		"one":                 {[]string{one}, nil, "hostNetwork"},
		"beside another":      {[]string{one}, []string{other}, "hostNetwork hostPID"},
		"with a change":       {[]string{one, change}, nil, "hostNetwork hostPID nodeName"},
		"beside a change":     {[]string{one}, []string{change}, "hostNetwork hostPID nodeName"},
		"beside the same one": {[]string{one}, []string{one}, "hostNetwork"},
	} {
		after := NewReplica(compileAll(t, c.after), Options{})
		var before *Replica
		if c.before != nil {
			before = NewReplica(compileAll(t, c.before), Options{})
		}
		n := 0
		err := Each(t.Context(), Reviews("f", strings.NewReader(review+"\n"+review+"\n")), after, before, func(e *Evaluated) {
			n++
			object, err := e.Request.Object.Map()
			if e.Err != nil || err != nil {
				t.Fatal(name, e.Err, err)
			}
			spec, _ := object["spec"].(map[string]any)
			if got := strings.Join(slices.Sorted(maps.Keys(spec)), " "); got != c.has || e.After.Allowed {
				t.Errorf("%s: decoded are %q, want %q; allowed: %v", name, got, c.has, e.After.Allowed)
			}
		})
		if err != nil || n != 2 {
			t.Errorf("%s: %d records, %v", name, n, err)
		}
	}
}

// BenchmarkRequest decodes a recorded decision with the object, a Pod of 7 kB.
func BenchmarkRequest(b *testing.B) {
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"shop","annotations":{"padding":"` + strings.Repeat("x", 6500) + `"}},"spec":{"containers":[{"name":"c","image":"nginx"}]}}`
	var lines bytes.Buffer
	feed := recordingTo(&lines)
	feed.Put(reviewed(b, reviewText(pod), time.Now()))
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	feed.Run(ctx)
	for r := range Decisions(time.Time{}, DecisionFile("f", &lines)) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.Request(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
