package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
)

// answered sends a possibly malformed review and checks the answer: a decision, or a 4xx.
func answered(t testing.TB, srv http.Handler, path, contentType string, body []byte) (code int) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	srv.ServeHTTP(w, r)
	if w.Code == http.StatusOK {
		var out admissionv1.AdmissionReview
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.Response == nil {
			t.Fatalf("an answer that is none: %s\nto %q", w.Body, body)
		}
		return w.Code
	}
	if w.Code < 400 || w.Code >= 500 {
		t.Fatalf("%d %s\nto %q", w.Code, w.Body, body)
	}
	return w.Code
}

// A malformed review gets a 4xx or a decision (S21 in docs/security/threat-model.md). It never crashes the server, and is never admitted
// because of a mistake in the envelope.
func TestS21MalformedReviews(t *testing.T) {
	srv, _ := setup(t, fakeCluster{labels: map[string]map[string]string{"shop": nil}}, nil, append(podSecurity(t, "pod-security"), enforced("Fail"))...)
	good := string(configMap(""))
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	lists := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, c := range map[string]struct {
		contentType, body string
		want              int // 0 for any 4xx or a decision
	}{
		"good":                    {body: good, want: 200},
		"empty":                   {body: "", want: 400},
		"blank":                   {body: " \n", want: 417},
		"no JSON":                 {body: "hello", want: 417},
		"YAML":                    {body: "kind: AdmissionReview", want: 417},
		"null":                    {body: "null", want: 417},
		"a list":                  {body: "[]", want: 417},
		"a text":                  {body: `"AdmissionReview"`, want: 417},
		"two reviews":             {body: good + good, want: 417},
		"something behind":        {body: good + "x", want: 417},
		"byte order mark":         {body: "\xef\xbb\xbf" + good, want: 417},
		"no UTF-8":                {body: strings.Replace(good, `"c"`, "\"\xff\xfe\"", 1)},
		"a NUL":                   {body: strings.Replace(good, `"c"`, "\"\x00\"", 1), want: 417},
		"another content type":    {contentType: "application/yaml", body: good, want: 415},
		"a content type twice":    {contentType: "application/json, text/plain", body: good, want: 415},
		"no content type":         {contentType: " ", body: good, want: 415},
		"v1beta1":                 {body: strings.Replace(good, "admission.k8s.io/v1", "admission.k8s.io/v1beta1", 1), want: 417},
		"another kind":            {body: strings.Replace(good, "AdmissionReview", "SubjectAccessReview", 1), want: 417},
		"no kind":                 {body: strings.Replace(good, `"kind":"AdmissionReview",`, "", 1), want: 417},
		"no request":              {body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, want: 400},
		"request null":            {body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":null}`, want: 400},
		"request empty":           {body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{}}`, want: 400},
		"request is a text":       {body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":"x"}`, want: 417},
		"no operation":            {body: strings.Replace(good, `"operation":"CREATE"`, `"operation":""`, 1), want: 400},
		"a strange operation":     {body: strings.Replace(good, `"operation":"CREATE"`, `"operation":"DESTROY"`, 1)},
		"operation is a number":   {body: strings.Replace(good, `"operation":"CREATE"`, `"operation":1`, 1), want: 417},
		"object is a text":        {body: strings.Replace(good, `"object":{`, `"object":"x","x":{`, 1)},
		"object is a list":        {body: strings.Replace(good, `"object":{`, `"object":[],"x":{`, 1)},
		"old object is a number":  {body: strings.Replace(good, `"object":{`, `"oldObject":1,"object":{`, 1)},
		"groups are no list":      {body: strings.Replace(good, `"userInfo":{`, `"userInfo":{"groups":"x",`, 1), want: 417},
		"extra is no map":         {body: strings.Replace(good, `"userInfo":{`, `"userInfo":{"extra":[],`, 1), want: 417},
		"deep object":             {body: strings.Replace(good, `"object":{`, `"object":{"d":`+nested(100_000)+`,`, 1), want: 417},
		"deep lists":              {body: strings.Replace(good, `"object":{`, `"object":{"d":`+lists(100_000)+`,`, 1), want: 417},
		"deep options":            {body: strings.Replace(good, `"dryRun"`, `"options":`+nested(100_000)+`,"dryRun"`, 1), want: 417},
		"deep unknown field":      {body: strings.Replace(good, `"dryRun"`, `"unknown":`+lists(100_000)+`,"dryRun"`, 1), want: 417},
		"deep old object":         {body: strings.Replace(good, `"dryRun"`, `"oldObject":`+nested(100_000)+`,"dryRun"`, 1), want: 417},
		"huge":                    {body: good + strings.Repeat(" ", maxBody), want: 413},
		"a number without end":    {body: strings.Replace(good, `"object":{`, `"object":{"n":`+strings.Repeat("9", 1<<20)+`,`, 1)},
		"half a surrogate":        {body: strings.Replace(good, `"c"`, `"\ud800"`, 1)},
		"a name without end":      {body: strings.Replace(good, `"name":"c"`, `"name":"`+strings.Repeat("n", 1<<20)+`"`, 1)},
		"a field twice":           {body: strings.Replace(good, `"operation":"CREATE"`, `"operation":"DELETE","operation":"CREATE"`, 1)},
		"the request twice":       {body: strings.Replace(good, `"request":{`, `"request":{},"request":{`, 1)},
		"a thousand groups twice": {body: strings.Replace(good, `"userInfo":{`, `"userInfo":{"groups":["`+strings.Repeat(`g","`, 1000)+`g"],"groups":[],`, 1)},
	} {
		contentType := c.contentType
		if contentType == "" {
			contentType = "application/json"
		}
		for _, path := range []string{"/validate/fail", "/mutate/fail", "/policyvalidate", "/exceptionvalidate", "/policymutate", "/verifymutate"} {
			if c.want == 200 && path != "/validate/fail" {
				continue
			}
			if code := answered(t, srv, path, contentType, []byte(c.body)); c.want != 0 && code != c.want {
				t.Errorf("%s, %s: %d, want %d", name, path, code, c.want)
			}
		}
	}
	for n := range len(good) {
		if code := answered(t, srv, "/validate/fail", "application/json", []byte(good[:n])); code == 200 {
			t.Errorf("cut after %d bytes, it was answered", n)
		}
	}
}

// Row S21 of docs/security/threat-model.md: ten thousand reviews with random changes of bytes, and of values of fields.
func TestS21MutatedReviews(t *testing.T) {
	srv, log := setup(t, fakeCluster{labels: map[string]map[string]string{"shop": nil}}, nil, append(podSecurity(t, "pod-security"), enforced("Fail"))...)
	srv.Deferred = &kept{}
	srv.ProtectManaged = true
	rnd := rand.New(rand.NewPCG(1, 2))
	seeds := [][]byte{configMap(""), configMap(team), podReview(true), configMap("", func(r *admissionv1.AdmissionRequest) {
		r.Operation, r.OldObject = "UPDATE", r.Object
	}), configMap("", func(r *admissionv1.AdmissionRequest) {
		r.Operation, r.OldObject = "DELETE", r.Object
		r.Object.Raw = nil
	})}
	paths := []string{"/validate/fail", "/validate/ignore", "/mutate/fail", "/validate", "/mutate", "/policyvalidate", "/exceptionvalidate", "/verifymutate", "/validate/fail/finegrained/a/b"}
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	codes := map[int]int{}
	for i := range n {
		body := bytes.Clone(seeds[rnd.IntN(len(seeds))])
		if i%2 == 0 {
			body = changeBytes(rnd, body)
		} else {
			body = changeValues(rnd, body)
		}
		codes[answered(t, srv, paths[rnd.IntN(len(paths))], "application/json", body)]++
	}
	if strings.Contains(log.String(), "panicked") {
		t.Errorf("a review panicked:\n%s", log)
	}
	if codes[200] < n/20 || codes[417] < n/20 {
		t.Errorf("the changes are too mild or too wild: %v", codes)
	}
	t.Log(codes)
}

func changeBytes(rnd *rand.Rand, b []byte) []byte {
	for range 1 + rnd.IntN(4) {
		at := rnd.IntN(len(b))
		switch rnd.IntN(5) {
		case 0:
			b[at] = byte(rnd.IntN(256))
		case 1:
			b[at] = `{}[]",:\0-e.tn `[rnd.IntN(15)]
		case 2:
			b = append(b[:at], b[min(at+1+rnd.IntN(20), len(b)):]...)
		case 3:
			end := min(at+1+rnd.IntN(50), len(b))
			b = append(b[:end:end], b[at:]...)
		case 4:
			b = b[:at]
		}
		if len(b) == 0 {
			return b
		}
	}
	return b
}

// changeValues replaces random values in the document.
func changeValues(rnd *rand.Rand, b []byte) []byte {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		panic(err)
	}
	others := []any{nil, true, 0, -1, 1e300, "", "*", "{{ request }}", "\x00", []any{}, []any{nil}, map[string]any{}, map[string]any{"": nil}, fmt.Sprint(rnd.Uint64())}
	var walk func(any) any
	walk = func(v any) any {
		if rnd.IntN(60) == 0 {
			return others[rnd.IntN(len(others))]
		}
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				if rnd.IntN(80) == 0 {
					delete(v, k)
				} else {
					v[k] = walk(x)
				}
			}
		case []any:
			for i, x := range v {
				v[i] = walk(x)
			}
		}
		return v
	}
	root := v.(map[string]any)
	root["request"] = walk(root["request"]) // changes of bytes cover the envelope
	out, err := json.Marshal(root)
	if err != nil {
		panic(err)
	}
	return out
}
