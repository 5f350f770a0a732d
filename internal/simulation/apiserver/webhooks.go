package apiserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// caller calls webhooks.
type caller struct {
	mu      sync.Mutex
	clients map[string]*http.Client
}

const registration = "admissionregistration.k8s.io"

// webhook is one webhook of a configuration. Its match conditions are not evaluated: it is called for more requests than necessary.
type webhook struct {
	Name              string
	ClientConfig      admissionregistrationv1.WebhookClientConfig
	Rules             []admissionregistrationv1.RuleWithOperations
	FailurePolicy     *admissionregistrationv1.FailurePolicyType
	NamespaceSelector *metav1.LabelSelector
	ObjectSelector    *metav1.LabelSelector
	TimeoutSeconds    *int32
}

// webhooks returns the webhooks of one kind of configuration, in the order of their calls.
func (s *Server) webhooks(resource string) (out []webhook) {
	t := s.tables[schema.GroupResource{Group: registration, Resource: resource}]
	if t == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(t.live)) {
		var c struct{ Webhooks []webhook }
		if err := json.Unmarshal(t.live[key].text(t.resource, form{version: "v1"}), &c); err == nil {
			out = append(out, c.Webhooks...)
		}
	}
	return out
}

// admit asks the webhooks about a write, and returns the object that they made of it. The caller holds the lock, which is free during calls;
// errChanged means that the object has changed meanwhile.
func (s *Server) admit(q *Request, t *table, key string, before *object, after map[string]any, dry bool) (map[string]any, error) {
	if s.options.Dial == nil || t.resource.Group == registration {
		return after, nil
	}
	mutating, validating := s.webhooks("mutatingwebhookconfigurations"), s.webhooks("validatingwebhookconfigurations")
	a := &attributes{q: q, r: t.resource, after: after, dry: dry, namespace: q.Namespace}
	if before != nil {
		a.before = before.data
	}
	_, a.name = splitKey(key)
	a.operation = map[string]admissionv1.Operation{"create": admissionv1.Create, "update": admissionv1.Update, "patch": admissionv1.Update, "delete": admissionv1.Delete}[q.Verb]
	if q.Verb == "patch" && before == nil {
		a.operation = admissionv1.Create
	}
	labelled := a.namespace
	if t.resource.Kind == "Namespace" && t.resource.Group == "" {
		a.namespace, labelled = a.name, a.name
	}
	if ns := s.tables[namespaces]; ns != nil && labelled != "" {
		if o := ns.live[keyOf("", labelled)]; o != nil {
			a.namespaceLabels = labelsOf(o.data)
		} else if t.resource.Kind == "Namespace" {
			a.namespaceLabels = labelsOf(after)
		}
	}
	mutating = slices.DeleteFunc(mutating, func(w webhook) bool { return !a.matched(w) })
	validating = slices.DeleteFunc(validating, func(w webhook) bool { return !a.matched(w) })
	if len(mutating)+len(validating) == 0 {
		return after, nil
	}
	version := s.version
	a.uid = types.UID("review-" + strconv.FormatInt(version, 10) + "-" + a.name)
	s.mu.Unlock()
	err := func() error {
		for _, w := range mutating {
			patch, err := s.callWebhook(a, w)
			if err != nil {
				return err
			}
			if len(patch) > 0 && a.after != nil {
				if a.after, err = apply(a.after, patch); err != nil {
					return err
				}
			}
		}
		for _, w := range validating {
			if _, err := s.callWebhook(a, w); err != nil {
				return err
			}
		}
		return nil
	}()
	s.mu.Lock()
	if err != nil {
		return nil, err
	}
	if now := t.live[key]; now != before {
		if q.Verb == "create" {
			return nil, apierrors.NewAlreadyExists(t.resource.GroupResource(), a.name)
		}
		return nil, errChanged
	}
	return a.after, nil
}

func apply(o map[string]any, patch []byte) (map[string]any, error) {
	p, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	if text, err = p.Apply(text); err != nil {
		return nil, err
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	plain(out)
	return out, nil
}

// attributes describe one write.
type attributes struct {
	q               *Request
	r               *Resource
	uid             types.UID
	name, namespace string
	operation       admissionv1.Operation
	before, after   map[string]any
	dry             bool
	namespaceLabels labels.Set
}

func labelsOf(o map[string]any) labels.Set {
	set := labels.Set{}
	l, _ := metaOf(o)["labels"].(map[string]any)
	for k, v := range l {
		set[k], _ = v.(string)
	}
	return set
}

func (a *attributes) matched(w webhook) bool {
	resource := a.r.Plural
	if a.q.Subresource != "" {
		resource += "/" + a.q.Subresource
	}
	has := func(list []string, v string) bool { return slices.Contains(list, v) || slices.Contains(list, "*") }
	rule := slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
		if !slices.Contains(r.Operations, admissionregistrationv1.OperationType(a.operation)) && !slices.Contains(r.Operations, admissionregistrationv1.OperationAll) {
			return false
		}
		if r.Scope != nil && (*r.Scope == admissionregistrationv1.NamespacedScope) != a.r.Namespaced && *r.Scope != admissionregistrationv1.AllScopes {
			return false
		}
		names := has(r.Resources, resource) && (a.q.Subresource == "" || slices.Contains(r.Resources, resource)) || slices.Contains(r.Resources, "*/*") ||
			a.q.Subresource != "" && (slices.Contains(r.Resources, "*/"+a.q.Subresource) || slices.Contains(r.Resources, a.r.Plural+"/*"))
		return has(r.APIGroups, a.r.Group) && names && (has(r.APIVersions, a.q.Version) || slices.ContainsFunc(r.APIVersions, func(v string) bool { return slices.Contains(a.r.Versions, v) }))
	})
	if !rule {
		return false
	}
	selects := func(s *metav1.LabelSelector, sets ...labels.Set) bool {
		if s == nil {
			return true
		}
		selector, err := metav1.LabelSelectorAsSelector(s)
		return err == nil && slices.ContainsFunc(sets, func(set labels.Set) bool { return selector.Matches(set) })
	}
	if a.namespace != "" && !selects(w.NamespaceSelector, a.namespaceLabels) {
		return false
	}
	return selects(w.ObjectSelector, labelsOf(a.before), labelsOf(a.after))
}

// callWebhook calls one webhook, and returns its patch.
func (s *Server) callWebhook(a *attributes, w webhook) ([]byte, error) {
	patch, denied, err := s.call(a, w)
	if denied != nil {
		return nil, denied
	}
	if err != nil {
		if w.FailurePolicy != nil && *w.FailurePolicy == admissionregistrationv1.Ignore {
			return nil, nil
		}
		return nil, apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: %w", w.Name, err))
	}
	return patch, nil
}

func (s *Server) call(a *attributes, w webhook) (patch []byte, denied, failed error) {
	service := w.ClientConfig.Service
	if service == nil {
		return nil, nil, errors.New("the simulation reaches Services only")
	}
	gvk, gvr := a.r.gvk(a.q.Version), metav1.GroupVersionResource{Group: a.r.Group, Version: a.q.Version, Resource: a.r.Plural}
	kind := metav1.GroupVersionKind(gvk)
	raw := func(o map[string]any) runtime.RawExtension {
		if o == nil {
			return runtime.RawExtension{}
		}
		text, _ := json.Marshal(present(o, a.r, form{version: a.q.Version}))
		return runtime.RawExtension{Raw: text}
	}
	options := map[admissionv1.Operation]string{admissionv1.Create: "CreateOptions", admissionv1.Update: "UpdateOptions", admissionv1.Delete: "DeleteOptions"}[a.operation]
	review := &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: "admission.k8s.io/v1"},
		Request: &admissionv1.AdmissionRequest{
			UID: a.uid, Kind: kind, Resource: gvr, SubResource: a.q.Subresource, RequestKind: &kind, RequestResource: &gvr, RequestSubResource: a.q.Subresource,
			Name: a.name, Namespace: a.namespace, Operation: a.operation, DryRun: &a.dry, Object: raw(a.after), OldObject: raw(a.before),
			UserInfo: authenticationv1.UserInfo{Username: a.q.client.User, Groups: []string{"system:authenticated"}},
			Options:  runtime.RawExtension{Raw: []byte(`{"kind":"` + options + `","apiVersion":"meta.k8s.io/v1"}`)},
		},
	}
	body, err := json.Marshal(review)
	if err != nil {
		return nil, nil, err
	}
	timeout := 10 * time.Second
	if w.TimeoutSeconds != nil {
		timeout = time.Duration(*w.TimeoutSeconds) * time.Second
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.q.ctx), timeout)
	defer cancel()
	path := ""
	if service.Path != nil {
		path = *service.Path
	}
	host := service.Name + "." + service.Namespace + ".svc"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("https://%s/%s?timeout=%s", host, strings.TrimPrefix(path, "/"), timeout), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	port := 443
	if service.Port != nil {
		port = int(*service.Port)
	}
	response, err := s.calls.client(s.options.Dial, service.Namespace, service.Name, port, w.ClientConfig.CABundle).Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("the server answered %s", response.Status)
	}
	var answer admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Response == nil {
		return nil, nil, fmt.Errorf("the answer is no review: %w", cmp.Or(err, errors.New("no response")))
	}
	if !answer.Response.Allowed {
		code, message := int32(http.StatusBadRequest), "denied"
		if st := answer.Response.Result; st != nil {
			code, message = cmp.Or(st.Code, code), cmp.Or(st.Message, message)
		}
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReason(reasonOf(code)), Message: fmt.Sprintf("admission webhook %q denied the request: %s", w.Name, message),
		}}, nil
	}
	return answer.Response.Patch, nil, nil
}

func reasonOf(code int32) metav1.StatusReason {
	if code == http.StatusForbidden {
		return metav1.StatusReasonForbidden
	}
	return metav1.StatusReasonBadRequest
}

// client returns the HTTP client for a Service.
func (c *caller) client(dial func(context.Context, string, string, int) (net.Conn, error), namespace, service string, port int, ca []byte) *http.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := fmt.Sprint(namespace, "/", service, ":", port, string(ca))
	if c.clients == nil {
		c.clients = map[string]*http.Client{}
	}
	if c.clients[id] == nil {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(ca)
		c.clients[id] = &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, namespace, service, port) },
		}}
	}
	return c.clients[id]
}

// Close ends the connections to webhooks.
func (s *Server) Close() {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	for _, c := range s.calls.clients {
		c.CloseIdleConnections()
	}
}
