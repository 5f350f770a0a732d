package admission

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"ephor.invalid/ephor/internal/policy"
)

// typedReview returns a review with every field set, as the API server encodes it.
func typedReview() *admissionv1.AdmissionReview {
	dryRun := true
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID:                types.UID("uid-1"),
			Kind:               metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
			Resource:           metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
			SubResource:        "scale",
			RequestKind:        &metav1.GroupVersionKind{Group: "extensions", Version: "v1beta1", Kind: "Deployment"},
			RequestResource:    &metav1.GroupVersionResource{Group: "extensions", Version: "v1beta1", Resource: "deployments"},
			RequestSubResource: "scale",
			Name:               "web",
			Namespace:          "shop",
			Operation:          admissionv1.Update,
			UserInfo: authenticationv1.UserInfo{
				Username: "jane", UID: "u", Groups: []string{"dev", "system:authenticated"},
				Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a", "b"}},
			},
			Object:    runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"web"},"n":9007199254740993,"f":1.5}`)},
			OldObject: runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"old"}}`)},
			DryRun:    &dryRun,
			Options:   runtime.RawExtension{Raw: []byte(`{"kind":"UpdateOptions"}`)},
		},
	}
}

func TestDecodeReview(t *testing.T) {
	body, err := json.Marshal(typedReview())
	if err != nil {
		t.Fatal(err)
	}
	req, err := decodeReview(string(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	clear(body) // the buffer is reused: nothing may refer to it
	object, _ := req.Object.Map()
	old, _ := req.OldObject.Map()
	gvk := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	switch {
	case req.UID != "uid-1", req.GVK != gvk, req.RequestGVK != gvk, req.Subresource != "scale",
		req.GVR != schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		req.Name != "web", req.Namespace != "shop", req.Operation != policy.Update, !req.DryRun, req.Origin != policy.FromAdmission:
		t.Errorf("%+v", req)
	}
	if want := (policy.Asked{
		GVK:         schema.GroupVersionKind{Group: "extensions", Version: "v1beta1", Kind: "Deployment"},
		GVR:         schema.GroupVersionResource{Group: "extensions", Version: "v1beta1", Resource: "deployments"},
		Subresource: "scale",
	}); req.Asked != want {
		t.Errorf("asked for %+v", req.Asked)
	}
	if want := (policy.User{Username: "jane", UID: "u", Groups: []string{"dev", "system:authenticated"}, Extra: map[string][]string{"scopes": {"a", "b"}}}); !reflect.DeepEqual(*req.User, want) {
		t.Errorf("%+v", req.User)
	}
	if !reflect.DeepEqual(object, map[string]any{"metadata": map[string]any{"name": "web"}, "n": int64(9007199254740993), "f": 1.5}) {
		t.Errorf("object: %v", object)
	}
	if !reflect.DeepEqual(old, map[string]any{"metadata": map[string]any{"name": "old"}}) {
		t.Errorf("old object: %v", old)
	}
	if !reflect.DeepEqual(req.Options, map[string]any{"kind": "UpdateOptions"}) {
		t.Errorf("options: %v", req.Options)
	}
}

func TestDecodeWithoutObjects(t *testing.T) {
	req, err := decodeReview((`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CONNECT","object":null,"oldObject":null,"dryRun":false,"unknown":{"a":[1]}}}`), nil)
	if err != nil || req.Object != nil || req.OldObject != nil || req.DryRun || req.User != nil {
		t.Errorf("%+v, %v", req, err)
	}
}

func TestDecodeMistakes(t *testing.T) {
	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	for _, body := range []string{
		`{`, `null`, `[]`, `"x"`, `{}`, `{} {}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"u"}}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":null}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":1}}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"object":` + deep + `}}`,
	} {
		if req, err := decodeReview(body, nil); err == nil {
			t.Errorf("%.80s was taken: %+v", body, req)
		}
	}
}

// For any input, decoding ends with a request or an error; and a review that encoding/json accepts gives the same request.
func FuzzDecodeReview(f *testing.F) {
	body, _ := json.Marshal(typedReview())
	f.Add(body)
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"\ud800","object":{"a":1e400}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := decodeReview(string(body), nil)
		if err != nil {
			return
		}
		var review admissionv1.AdmissionReview
		if json.Unmarshal(body, &review) != nil || review.Request == nil || hasOddKeys(body) {
			return // encoding/json also checks types of fields that the decoder skips
		}
		if string(review.Request.UID) != req.UID || string(review.Request.Operation) != string(req.Operation) || review.Request.Name != req.Name {
			t.Errorf("%q: %+v differs from %+v", body, req, review.Request)
		}
	})
}

// hasOddKeys reports keys that differ in letter case or repeat. encoding/json matches and merges those, but the API server never sends
// them.
func hasOddKeys(body []byte) bool {
	lower := strings.ToLower(string(body))
	if lower != string(body) && strings.Count(lower, `"uid"`) != strings.Count(string(body), `"uid"`) {
		return true
	}
	for _, key := range []string{`"uid"`, `"operation"`, `"name"`, `"request"`, `\u`} {
		if strings.Count(lower, key) != strings.Count(string(body), key) || strings.Count(lower, key) > 1 {
			return true
		}
	}
	return false
}

func TestResponses(t *testing.T) {
	for _, c := range []struct {
		res  response
		want admissionv1.AdmissionResponse
	}{
		{response{uid: "u", allowed: true}, admissionv1.AdmissionResponse{UID: "u", Allowed: true}},
		{
			response{uid: "u", message: "\n\nresource <Pod> \"é\"\n", warnings: []string{"unused \"x\"", "b"}},
			admissionv1.AdmissionResponse{UID: "u", Result: &metav1.Status{Status: "Failure", Message: "\n\nresource <Pod> \"é\"\n"}, Warnings: []string{"unused \"x\"", "b"}},
		},
		{ // the API server drops warnings with line breaks
			response{uid: "u", allowed: true, warnings: []string{"policy p.r: several\n\tlines\n"}},
			admissionv1.AdmissionResponse{UID: "u", Allowed: true, Warnings: []string{"policy p.r: several lines"}},
		},
		{response{uid: "u", allowed: true, patch: []byte(`[{"op":"add"}]`)}, admissionv1.AdmissionResponse{
			UID: "u", Allowed: true, Patch: []byte(`[{"op":"add"}]`),
			PatchType: func() *admissionv1.PatchType { t := admissionv1.PatchTypeJSONPatch; return &t }(),
		}},
	} {
		var got admissionv1.AdmissionReview
		text := c.res.append(nil)
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got.APIVersion != "admission.k8s.io/v1" || got.Kind != "AdmissionReview" || !reflect.DeepEqual(*got.Response, c.want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", text, got.Response, c.want)
		}
	}
}
