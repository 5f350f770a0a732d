package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/secretpath"
)

// T20: a review whose connection ends while it is evaluated counts as failed, since the API server shows its URL. A connection at a path that
// is not answered does not.
func TestT20LostReviews(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil, enforced("Fail"))
	failed, evaluating, release := make(chan bool, 10), make(chan bool), make(chan bool)
	srv.Failed = func() { failed <- true }
	srv.Eval = func(ctx context.Context, in engine.Input) policy.Outcome {
		evaluating <- true
		<-release
		return engine.Eval(ctx, in)
	}
	address, config := onTLS(t, srv)
	send := func(path string) *tls.Conn {
		conn, err := tls.Dial("tcp", address, config)
		if err != nil {
			t.Fatal(err)
		}
		body := configMap("")
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
		return conn
	}
	other := send("/invented")
	other.Close()
	conn := send("/validate/fail")
	<-evaluating
	if len(failed) > 0 {
		t.Error("a review that is evaluated counts as failed")
	}
	conn.Close()
	<-failed
	release <- true
	if len(failed) > 0 {
		t.Error("one review counts several times")
	}
}

// ending answers every path as one that ends soon.
type ending struct{}

func (ending) Prove(path string) (string, secretpath.Verdict) { return path, secretpath.Ending }

// T20: a client that knows a path which ends anyway cannot end the next one, too.
func TestT20LostReviewsAtEndingPaths(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil, enforced("Fail"))
	failed, evaluating, release, answered := 0, make(chan bool), make(chan bool), make(chan bool)
	srv.Paths, srv.Failed = ending{}, func() { failed++ }
	srv.Eval = func(ctx context.Context, in engine.Input) policy.Outcome {
		evaluating <- true
		<-release
		defer func() { answered <- true }()
		return engine.Eval(ctx, in)
	}
	t.Cleanup(func() { // after the server has ended
		if failed > 0 {
			t.Error("a review at a path that ends counts as failed")
		}
	})
	address, config := onTLS(t, srv)
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		t.Fatal(err)
	}
	body := configMap("")
	fmt.Fprintf(conn, "POST /validate/fail HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	<-evaluating
	conn.Close()
	release <- true
	<-answered
}

// T20: a review of a creation that names an existing object is not the API server's, whatever requester it names: the rules that depend on the
// requester have no work. The path counts as known to another client.
func TestT20ForgedCreations(t *testing.T) {
	srv, _ := setup(t, fakeCluster{labels: map[string]map[string]string{"shop": nil}}, nil, `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: work}
spec:
  background: false
  rules:
  - name: anyone
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    generate: {apiVersion: v1, kind: Secret, name: s, namespace: shop, data: {type: Opaque}}
  - name: masters
    match: {any: [{resources: {kinds: [ConfigMap]}, subjects: [{kind: Group, name: "system:masters"}]}]}
    generate: {apiVersion: v1, kind: Secret, name: m, namespace: shop, data: {type: Opaque}}
`)
	k, failed := &kept{}, 0
	srv.Deferred, srv.Failed = k, func() { failed++ }
	object := func(uid string) []byte {
		return []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"shop","uid":"` + uid + `"}}`)
	}
	const all, some = "generate work/anyone, generate work/masters", "generate work/anyone"
	for _, c := range []struct {
		name, stored string
		err          error
		op           admissionv1.Operation
		uid, want    string
		failed       int
		warned       bool
	}{
		{name: "a new object", op: "CREATE", uid: "u", want: all},
		{name: "an object of that name is deleted and created again", op: "CREATE", uid: "u", stored: "other", want: all},
		{name: "an existing object", op: "CREATE", uid: "u", stored: "u", want: some, failed: 1},
		{name: "it cannot be read", op: "CREATE", uid: "u", err: errors.New("no answer"), want: some, warned: true},
		{name: "an update", op: "UPDATE", uid: "u", stored: "u", want: all},
	} {
		failed = 0
		srv.StoredUID = func(_ context.Context, gvk schema.GroupVersionKind, namespace, name string) (string, error) {
			if gvk.Kind != "ConfigMap" || namespace != "shop" || name != "c" {
				t.Errorf("%s: asked for %v %s/%s", c.name, gvk, namespace, name)
			}
			return c.stored, c.err
		}
		_, res := postReview(t, srv, "/validate/fail", configMap("", func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.UserInfo.Groups, r.Object.Raw, r.OldObject.Raw = c.op, []string{"system:masters"}, object(c.uid), nil
			if c.op == admissionv1.Update {
				r.OldObject.Raw = object(c.uid)
			}
		}))
		if got := k.drain(); got != c.want || failed != c.failed || (len(res.Warnings) > 0) != c.warned || !res.Allowed {
			t.Errorf("%s: work %q, want %q; failed %d, %v", c.name, got, c.want, failed, res)
		}
	}
}
