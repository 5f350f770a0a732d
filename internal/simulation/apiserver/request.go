package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Request is one request of a client.
type Request struct {
	Client string
	// Verb is the verb of the API: get, list, watch, create, update, patch, delete, deletecollection; empty for a path that is no resource.
	Verb                              string
	Group, Version, Resource          string
	Namespace, Name, Subresource      string
	Method, Path, Accept, ContentType string
	Query                             url.Values
	Body                              []byte

	ctx     context.Context
	client  *Client
	handled bool
	behind  int64 // versions by which a list from the cache is behind
}

// GroupResource returns the name of the resource.
func (q *Request) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: q.Group, Resource: q.Resource}
}

// Writes reports whether the request changes something.
func (q *Request) Writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, q.Verb)
}

// parse fills in what the path says.
func (q *Request) parse() {
	parts := strings.Split(strings.Trim(q.Path, "/"), "/")
	switch {
	case len(parts) >= 2 && parts[0] == "api":
		q.Version, parts = parts[1], parts[2:]
	case len(parts) >= 3 && parts[0] == "apis":
		q.Group, q.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return
	}
	if len(parts) == 0 {
		q.Group, q.Version = "", ""
		return
	}
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		q.Namespace, parts = parts[1], parts[2:]
	}
	q.Resource = parts[0]
	if len(parts) > 1 {
		q.Name = parts[1]
	}
	if len(parts) > 2 {
		q.Subresource = strings.Join(parts[2:], "/")
	}
	watching := q.Query.Get("watch") == "true" || q.Query.Get("watch") == "1"
	switch q.Method {
	case http.MethodGet:
		q.Verb = "list"
		if q.Name != "" {
			q.Verb = "get"
		}
		if watching {
			q.Verb = "watch"
		}
	case http.MethodPost:
		q.Verb = "create"
	case http.MethodPut:
		q.Verb = "update"
	case http.MethodPatch:
		q.Verb = "patch"
	case http.MethodDelete:
		q.Verb = "delete"
		if q.Name == "" {
			q.Verb = "deletecollection"
		}
	}
}

// statusOf returns an error as the API server sends it.
func statusOf(err error) *metav1.Status {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		out := status.Status()
		out.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		return &out
	}
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Reason: metav1.StatusReasonInternalError, Message: err.Error(),
	}
}

// answer returns a response with a body.
func (q *Request) answer(code int, contentType string, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: strconv.Itoa(code) + " " + http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Body: body, ContentLength: -1,
	}
}

func (q *Request) json(code int, text []byte) *http.Response {
	return q.answer(code, "application/json", io.NopCloser(bytes.NewReader(text)))
}

// fail returns the answer for an error.
func (q *Request) fail(err error) *http.Response {
	status := statusOf(err)
	text, _ := json.Marshal(status)
	out := q.json(int(status.Code), text)
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		out.Header.Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	return out
}

// formOf returns the form that the client accepts.
func (q *Request) formOf() form {
	f := form{version: q.Version}
	for _, part := range strings.Split(q.Accept, ",") {
		switch {
		case !strings.HasPrefix(strings.TrimSpace(part), "application/json"):
		case strings.Contains(part, "as=PartialObjectMetadata"):
			f.as = metadataOnly
			return f
		case strings.Contains(part, "as=Table"):
			f.as = tableRow
			return f
		default:
			return f
		}
	}
	return f
}

// serve answers a request.
func (s *Server) serve(q *Request) *http.Response {
	if q.Resource == "" {
		return s.paths(q)
	}
	s.mu.Lock()
	t := s.find(q.Group, q.Version, q.Resource)
	var r *Resource
	if t != nil {
		r = t.resource
	}
	s.mu.Unlock()
	if r == nil {
		return q.answer(http.StatusNotFound, "text/plain; charset=utf-8", io.NopCloser(strings.NewReader("404 page not found\n")))
	}
	gr := r.GroupResource()
	if s.Allowed != nil && !s.Allowed(q.Client, q.Verb, gr, q.Namespace) {
		return q.fail(apierrors.NewForbidden(gr, q.Name, errors.New("the simulation does not grant "+q.Verb)))
	}
	if !slices.Contains(r.verbs(), q.Verb) || q.Subresource != "" && !(q.Subresource == "status" && r.Status) && q.Subresource != "finalize" {
		if q.Subresource != "" && slices.Contains(r.verbs(), q.Verb) {
			return q.answer(http.StatusNotFound, "text/plain; charset=utf-8", io.NopCloser(strings.NewReader("404 page not found\n")))
		}
		return q.fail(apierrors.NewMethodNotSupported(gr, q.Verb))
	}
	if len(r.Verbs) == 1 && r.Verbs[0] == "create" {
		return s.review(q, r)
	}
	f := q.formOf()
	switch q.Verb {
	case "get":
		s.mu.Lock()
		defer s.mu.Unlock()
		o := t.live[keyOf(q.Namespace, q.Name)]
		if o == nil {
			return q.fail(apierrors.NewNotFound(gr, q.Name))
		}
		return q.json(http.StatusOK, o.text(r, f))
	case "list", "watch":
		sel, err := selectionOf(q)
		if err != nil {
			return q.fail(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if q.Verb == "watch" {
			w, err := s.watch(q, t, sel, f)
			if err != nil {
				return q.fail(err)
			}
			return q.answer(http.StatusOK, "application/json", w)
		}
		text, err := s.list(q, t, sel, f)
		if err != nil {
			return q.fail(err)
		}
		return q.json(http.StatusOK, text)
	}
	code, text, err := s.write(q, t, f)
	if err != nil {
		return q.fail(err)
	}
	return q.json(code, text)
}

// review answers a kind that is only created: who the client is, and what it may do.
func (s *Server) review(q *Request, r *Resource) *http.Response {
	var in map[string]any
	if err := json.Unmarshal(q.Body, &in); err != nil {
		return q.fail(apierrors.NewBadRequest(err.Error()))
	}
	spec, _ := in["spec"].(map[string]any)
	attributes, _ := spec["resourceAttributes"].(map[string]any)
	switch r.Kind {
	case "SelfSubjectReview":
		in["status"] = map[string]any{"userInfo": map[string]any{"username": q.client.User, "groups": []any{"system:authenticated"}}}
	case "TokenReview":
		in["status"] = map[string]any{"authenticated": true, "user": map[string]any{"username": spec["token"]}}
	default:
		client := q.Client
		if user, ok := spec["user"].(string); ok {
			client = user
		}
		allowed := s.Allowed == nil || s.Allowed(client, textOf(attributes, "verb"), schema.GroupResource{Group: textOf(attributes, "group"), Resource: textOf(attributes, "resource")}, textOf(attributes, "namespace"))
		in["status"] = map[string]any{"allowed": allowed}
	}
	in["apiVersion"], in["kind"] = r.gvk(q.Version).GroupVersion().String(), r.Kind
	text, _ := json.Marshal(in)
	return q.json(http.StatusCreated, text)
}
