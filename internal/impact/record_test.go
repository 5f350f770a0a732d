package impact

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"shop"}}`

func reviewText(object string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},"name":"p","namespace":"shop","operation":"CREATE","object":` + object + `}}`
}

// Records are read one after the other, on lines or indented, as JSON or YAML. A record that cannot be read gives an error in its place,
// whatever its form or size.
func TestRecords(t *testing.T) {
	good := reviewText(pod)
	indented := strings.NewReplacer(`,"request"`, ",\n  \"request\"", `}}}}`, "}}}\n}").Replace(good)
	lines := strings.Replace(indented, pod, `{"text":"}\\\"{[",`+"\n"+`"list":[`+strings.Repeat("{},\n  {\n  },\n", 100_000)+"{}]\n  }", 1) // the comparison of the whole after each of its lines would take minutes
	for name, c := range map[string]struct {
		text string
		want string // for each record: its position, and ok or an error
	}{
		"lines":              {good + "\n" + good + "\n\n" + good, "f:1 ok, f:2 ok, f:4 ok"},
		"indented":           {indented + "\n" + indented + "\n", "f:1 ok, f:4 ok"},
		"many lines":         {lines + "\n" + indented + "\n", "f:1 ok, f:300006 ok"},
		"a bad line":         {good + "\n" + `{"a":1}` + "\n" + good, "f:1 ok, f:2 error, f:3 ok"},
		"cut off":            {good + "\n" + good[:50], "f:1 ok, f:2 error"},
		"a torn line":        {good + "\n" + good[:50] + good + "\n" + good + "\n" + indented + "\n" + good[:50] + "\n" + good, "f:1 ok, f:2 error, f:3 ok, f:4 ok, f:7 error, f:8 ok"},
		"a byte order mark":  {"\ufeff" + good + "\n" + good, "f:1 ok, f:2 ok"},
		"the mark and YAML":  {"\ufeff---\n" + good + "\n", "f, document 1 ok"},
		"YAML":               {"# a comment\n---\n" + good + "\n---\n", "f, document 2 ok"},
		"no record":          {"", "f error"},
		"not even YAML":      {"{{{", "f:1 error"},
		"no request":         {`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, "f:1 error"},
		"no kind":            {strings.Replace(good, `"kind":"Pod"},"resource"`, `"kind":""},"resource"`, 1), "f:1 error"},
		"too long":           {good + "\n" + reviewText(`{"x":"`+strings.Repeat("x", MaxRecord)+`"}`) + "\n", "f:1 ok, f:2 error"},
		"a list of requests": {"[" + good + "]", "f, document 1 error"},
	} {
		var got []string
		for r := range Reviews("f", strings.NewReader(c.text)) {
			state := " ok"
			if _, err := r.Request(); err != nil {
				state = " error"
			}
			got = append(got, r.At+state)
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %s, want %s", name, strings.Join(got, ", "), c.want)
		}
	}
}

func event(verb, more string) string {
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"a","stage":"ResponseComplete","verb":%q,"user":{"username":"jane","groups":["dev"]},"objectRef":{"resource":"pods","namespace":"shop","name":"p","apiVersion":"v1"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-01T10:00:00.000000Z"%s}`, verb, more)
}

// An audit log is JSON, whatever its first line is: it may begin within an event, as the end of a log does.
func TestAuditLogBeginsAnywhere(t *testing.T) {
	good := event("list", "")
	got := 0
	for r := range AuditLog("f", strings.NewReader("\ufeff"+good[50:]+"\n"+good+"\n"+good+"\n"), time.Time{}) {
		if got++; (r.Err != nil) != (r.At == "f:1") {
			t.Errorf("%s: %v", r.At, r.Err)
		}
	}
	if got != 3 {
		t.Errorf("%d records", got)
	}
}

// An event gives the request that admission reviewed if the log holds the object, and otherwise the reason why it does not.
func TestAuditEvents(t *testing.T) {
	bare := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`
	for name, c := range map[string]struct {
		event string
		want  string
	}{
		"create":            {event("create", `,"requestObject":`+bare), "CREATE shop/p by jane, object in shop"},
		"update":            {event("update", `,"requestObject":`+bare+`,"responseObject":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"other"}}`), "UPDATE shop/p by jane, object in shop"},
		"patch":             {event("patch", `,"requestObject":{"metadata":{}},"responseObject":`+bare), "UPDATE shop/p by jane, object in shop"},
		"an applied object": {strings.Replace(event("patch", `,"requestObject":`+bare+`,"responseObject":`+bare), `"code":200`, `"code":201`, 1), "CREATE shop/p by jane, object in shop"},
		"a refused patch":   {strings.Replace(event("patch", `,"responseObject":{"apiVersion":"v1","kind":"Status"}`), `"code":200`, `"code":403`, 1), "no object"},
		"impersonated":      {event("create", `,"impersonatedUser":{"username":"joe"},"requestObject":`+bare), "CREATE shop/p by joe, object in shop"},
		"a Namespace":       {strings.NewReplacer(`"pods"`, `"namespaces"`, `"name":"p"`, `"name":"shop"`, `"Pod"`, `"Namespace"`).Replace(event("update", `,"requestObject":`+bare)), "UPDATE shop/shop by jane, object in <nil>"},
		"a new Namespace":   {strings.NewReplacer(`"pods"`, `"namespaces"`, `"namespace":"shop",`, "", `"name":"p"`, `"name":"shop"`, `"Pod"`, `"Namespace"`).Replace(event("create", `,"requestObject":`+bare)), "CREATE shop/shop by jane, object in <nil>"},
		"delete":            {event("delete", `,"requestObject":{"apiVersion":"meta.k8s.io/v1","kind":"DeleteOptions"},"responseObject":`+bare), "DELETE shop/p by jane, old object in shop"},
		"a deletion":        {event("delete", `,"responseObject":{"apiVersion":"v1","kind":"Status"}`), "no object"},
		"a collection":      {event("deletecollection", ""), "no object"},
		"exec":              {strings.Replace(event("create", ""), `"name":"p"`, `"name":"p","subresource":"exec"`, 1), "no object"},
		"level Metadata":    {event("create", ""), "no object"},
		"a list":            {event("list", ""), "not admitted"},
		"an earlier stage":  {strings.Replace(event("create", `,"requestObject":`+bare), "ResponseComplete", "RequestReceived", 1), "not admitted"},
		"not authorized":    {event("create", `,"annotations":{"authorization.k8s.io/decision":"forbid"},"requestObject":`+bare), "not admitted"},
		"no event":          {pod, "error"},
		"an object of text": {event("create", `,"requestObject":"x"`), "error"},
	} {
		r := Record{Text: c.event, Audited: true}
		req, err := r.Request()
		got := ""
		switch {
		case errors.Is(err, ErrNoObject):
			got = "no object"
		case errors.Is(err, ErrNotAdmitted):
			got = "not admitted"
		case err != nil:
			got = "error"
		default:
			d, which := req.Object, "object"
			if d == nil {
				d, which = req.OldObject, "old object"
			}
			object, err := d.Map()
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			metadata, _ := object["metadata"].(map[string]any)
			got = fmt.Sprintf("%s %s/%s by %s, %s in %v", req.Operation, req.Namespace, req.Name, req.User.Username, which, metadata["namespace"])
			if r.Time.IsZero() {
				t.Errorf("%s: no time", name)
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// No change in a report contains the values of a Secret.
func TestChangesOfSecrets(t *testing.T) {
	programs := compileAll(t, []string{`
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: stamp}
spec:
  background: false
  rules:
  - name: by
    match: {any: [{resources: {kinds: [Secret]}}]}
    mutate: {patchStrategicMerge: {data: {copy: "{{ request.object.data.planted }}"}}}
`})
	text := strings.NewReplacer(`"pods"`, `"secrets"`, `"Pod"`, `"Secret"`).Replace(reviewText(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"p","namespace":"shop"},"data":{"planted":"cGxhbnRlZA=="}}`))
	after := NewReplica(programs, Options{})
	c := NewCollector(after, nil, 5)
	if err := Run(t.Context(), Reviews("f", strings.NewReader(text)), after, nil, c); err != nil {
		t.Fatal(err)
	}
	r := c.Report(t.Context(), Facts{})
	if r.After.Changed != 1 || len(r.Examples) != 1 || len(r.Examples[0].Changes) != 1 {
		t.Fatalf("%+v", r)
	}
	if said := fmt.Sprintf("%+v", r); strings.Contains(said, "cGxhbnRlZA") {
		t.Errorf("the value is in the report: %s", said)
	}
}
