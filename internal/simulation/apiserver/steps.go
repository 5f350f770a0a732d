package apiserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Step is one request with the status that the answer has.
type Step struct {
	Name         string
	Method, Path string
	ContentType  string // of the body; empty for JSON
	Body         string
	Code         int
	Reason       string // of a Status that is the answer; empty if it does not matter
}

const inTest = "/api/v1/namespaces/comparison/configmaps"

// Steps are requests whose status the documentation of the API defines. Each builds on the ones before. A test in e2e compares the answers with
// those of a real API server.
var Steps = []Step{
	{"create without a namespace", "POST", inTest, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, 404, "NotFound"},
	{"create a namespace", "POST", "/api/v1/namespaces", "", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"comparison"}}`, 201, ""},
	{"create", "POST", inTest, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","finalizers":["example.com/f"]},"data":{"v":"1"}}`, 201, ""},
	{"create twice", "POST", inTest, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, 409, "AlreadyExists"},
	{"create without a name", "POST", inTest, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}`, 422, "Invalid"},
	{"create with generateName", "POST", inTest, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"g-"}}`, 201, ""},
	{"create with a version", "POST", inTest, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","resourceVersion":"1"}}`, 500, ""},
	{"create another kind", "POST", inTest, "", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"b"}}`, 400, "BadRequest"},
	{"create in another namespace", "POST", inTest, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","namespace":"default"}}`, 400, "BadRequest"},
	{"create as a dry run", "POST", inTest + "?dryRun=All", "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"dry"}}`, 201, ""},
	{"read what was a dry run", "GET", inTest + "/dry", "", "", 404, "NotFound"},
	{"read", "GET", inTest + "/a", "", "", 200, ""},
	{"update another version", "PUT", inTest + "/a", "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"1"}}`, 409, "Conflict"},
	{"update another object", "PUT", inTest + "/a", "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"x"}}`, 409, "Conflict"},
	{"update what is missing", "PUT", inTest + "/none", "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"none"}}`, 404, "NotFound"},
	{"update another name", "PUT", inTest + "/a", "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`, 400, "BadRequest"},
	{"merge", "PATCH", inTest + "/a", "application/merge-patch+json", `{"data":{"v":"2"}}`, 200, ""},
	{"merge another version", "PATCH", inTest + "/a", "application/merge-patch+json", `{"metadata":{"resourceVersion":"1"},"data":{"v":"3"}}`, 409, "Conflict"},
	{"merge what is missing", "PATCH", inTest + "/none", "application/merge-patch+json", `{"data":{"v":"2"}}`, 404, "NotFound"},
	{"patch", "PATCH", inTest + "/a", "application/json-patch+json", `[{"op":"test","path":"/data/v","value":"2"},{"op":"add","path":"/data/w","value":"1"}]`, 200, ""},
	{"patch whose test fails", "PATCH", inTest + "/a", "application/json-patch+json", `[{"op":"test","path":"/data/v","value":"7"}]`, 422, "Invalid"},
	{"patch of an unknown type", "PATCH", inTest + "/a", "text/plain", `{}`, 415, "UnsupportedMediaType"},
	{"apply without a manager", "PATCH", inTest + "/s", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"}}`, 422, "Invalid"},
	{"apply", "PATCH", inTest + "/s?fieldManager=one", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"},"data":{"v":"1"}}`, 201, ""},
	{"apply by another manager", "PATCH", inTest + "/s?fieldManager=two", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"},"data":{"v":"2"}}`, 409, "Conflict"},
	{"apply by force", "PATCH", inTest + "/s?fieldManager=two&force=true", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"},"data":{"v":"2"}}`, 200, ""},
	{"list a page", "GET", inTest + "?limit=1", "", "", 200, ""},
	{"list with a bad token", "GET", inTest + "?limit=1&continue=x", "", "", 400, "BadRequest"},
	{"list with a bad selector", "GET", inTest + "?labelSelector=!!", "", "", 400, "BadRequest"},
	{"list with an unknown field", "GET", inTest + "?fieldSelector=data.v%3D1", "", "", 400, "BadRequest"},
	{"a kind that is not served", "GET", "/apis/example.com/v1/widgets", "", "", 404, ""},
	{"a subresource that does not exist", "GET", inTest + "/a/status", "", "", 404, ""},
	{"a verb that the kind lacks", "GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "", "", 405, "MethodNotAllowed"},
	{"delete another object", "DELETE", inTest + "/a", "", `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"x"}}`, 409, "Conflict"},
	{"delete what is missing", "DELETE", inTest + "/none", "", "", 404, "NotFound"},
	{"delete as a dry run", "DELETE", inTest + "/s?dryRun=All", "", "", 200, ""},
	{"delete", "DELETE", inTest + "/a", "", "", 200, ""},
	{"what has a finalizer is still there", "GET", inTest + "/a", "", "", 200, ""},
	{"no finalizer may be added", "PATCH", inTest + "/a", "application/merge-patch+json", `{"metadata":{"finalizers":["example.com/f","example.com/g"]}}`, 422, "Invalid"},
	{"remove the finalizer", "PATCH", inTest + "/a", "application/merge-patch+json", `{"metadata":{"finalizers":null}}`, 200, ""},
	{"then it is gone", "GET", inTest + "/a", "", "", 404, "NotFound"},
	{"keep the namespace", "POST", inTest, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"k","finalizers":["example.com/f"]}}`, 201, ""},
	{"delete the namespace", "DELETE", "/api/v1/namespaces/comparison", "", "", 200, ""},
	{"create in a namespace that ends", "POST", inTest, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"late"}}`, 403, "Forbidden"},
	{"let it go", "PATCH", inTest + "/k", "application/merge-patch+json", `{"metadata":{"finalizers":null}}`, 200, ""},
}

// Send sends the request, and returns an error if the answer has another status.
func (x Step) Send(ctx context.Context, client *http.Client, host string) error {
	request, err := http.NewRequestWithContext(ctx, x.Method, host+x.Path, strings.NewReader(x.Body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", cmp.Or(x.ContentType, "application/json"))
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var status metav1.Status
	if json.Unmarshal(text, &status) != nil || status.Kind != "Status" {
		status.Reason = ""
	}
	if response.StatusCode != x.Code || x.Reason != "" && string(status.Reason) != x.Reason {
		return fmt.Errorf("%s: %d %s, want %d %s\n%.300s", x.Name, response.StatusCode, status.Reason, x.Code, x.Reason, text)
	}
	return nil
}
