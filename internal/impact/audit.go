package impact

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/value"
)

// auditEvent has the fields that are read from an event of an audit log (audit.k8s.io/v1).
type auditEvent struct {
	Kind       string    `json:"kind"`
	APIVersion string    `json:"apiVersion"`
	AuditID    string    `json:"auditID"`
	Stage      string    `json:"stage"`
	Verb       string    `json:"verb"`
	RequestURI string    `json:"requestURI"`
	User       requester `json:"user"`
	// ImpersonatedUser, if set, is the user of the request.
	ImpersonatedUser *requester `json:"impersonatedUser"`
	ObjectRef        *struct {
		Resource, Namespace, Name, APIGroup, APIVersion, Subresource string
	} `json:"objectRef"`
	ResponseStatus *struct {
		Code int32 `json:"code"`
	} `json:"responseStatus"`
	RequestObject            json.RawMessage   `json:"requestObject"`
	ResponseObject           json.RawMessage   `json:"responseObject"`
	RequestReceivedTimestamp time.Time         `json:"requestReceivedTimestamp"`
	Annotations              map[string]string `json:"annotations"`
}

type requester struct {
	Username string              `json:"username"`
	UID      string              `json:"uid"`
	Groups   []string            `json:"groups"`
	Extra    map[string][]string `json:"extra"`
}

// operationOf maps verbs of the API to operations of admission.
var operationOf = map[string]string{"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}

// connects has the subresources for which admission gets the operation CONNECT.
var connects = map[string]bool{"exec": true, "attach": true, "portforward": true, "proxy": true}

// errNotAudit is the error for a document that is not an event of an audit log.
var errNotAudit = errors.New("it is not an event of an audit log (kind Event of audit.k8s.io/v1)")

// reviewOf returns the AdmissionReview that the API server would send for the request of an event. The log holds the object as the API
// server received it, before any change, and for a patch only the resulting object. It never holds the object before an update.
func reviewOf(text string) (review string, at time.Time, err error) {
	var e auditEvent
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		if mistyped := (*json.UnmarshalTypeError)(nil); errors.As(err, &mistyped) && strings.Contains(mistyped.Field, ".") {
			return "", at, fmt.Errorf("the field %s of the event has a wrong value: a %s", mistyped.Field, mistyped.Value)
		} else if mistyped != nil {
			return "", at, errNotAudit
		}
		return "", at, err
	}
	if e.Kind != "Event" || !strings.HasPrefix(e.APIVersion, "audit.k8s.io/") {
		return "", at, errNotAudit
	}
	at = e.RequestReceivedTimestamp
	operation := operationOf[e.Verb]
	if operation == "UPDATE" && e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusCreated {
		operation = "CREATE" // such as a server-side apply of a new object
	}
	switch {
	case e.Stage == "ResponseComplete" && e.ObjectRef != nil && (e.Verb == "deletecollection" || connects[e.ObjectRef.Subresource]):
		return "", at, ErrNoObject // admission reviewed each object, or the options of the connection; the event has neither
	case operation == "" || e.Stage != "ResponseComplete" || e.ObjectRef == nil || e.ObjectRef.Resource == "":
		return "", at, ErrNotAdmitted
	case e.Annotations["authorization.k8s.io/decision"] == "forbid":
		return "", at, ErrNotAdmitted // authorization comes before admission
	}
	o := e.ObjectRef
	namespace := o.Namespace // of the object; the request for a Namespace names that one
	if o.APIGroup == "" && o.Resource == "namespaces" {
		o.Namespace, namespace = o.Name, ""
	}
	refused := e.ResponseStatus != nil && e.ResponseStatus.Code >= 400
	object := e.RequestObject
	if e.Verb == "patch" || len(object) == 0 {
		object = e.ResponseObject
		if refused {
			return "", at, ErrNoObject // a Status, not the object
		}
	}
	kind, err := kindOf(object)
	if err != nil {
		return "", at, err
	}
	switch {
	case kind.Kind == "" && operation != "DELETE":
		return "", at, ErrNoObject
	case operation == "DELETE":
		// The request holds options. The response holds the object only if the deletion is still in progress.
		if object = e.ResponseObject; len(object) > 0 {
			if kind, err = kindOf(object); err != nil {
				return "", at, err
			}
		}
		if len(object) == 0 || kind.Kind == "Status" || refused {
			return "", at, ErrNoObject
		}
	}
	who := e.User
	if e.ImpersonatedUser != nil {
		who = *e.ImpersonatedUser
	}
	resource := map[string]any{"group": o.APIGroup, "version": o.APIVersion, "resource": o.Resource}
	gvk := map[string]any{"group": kind.Group, "version": kind.Version, "kind": kind.Kind}
	request := map[string]any{
		"uid": e.AuditID, "kind": gvk, "resource": resource, "requestKind": gvk, "requestResource": resource, "operation": operation,
		"userInfo": map[string]any{"username": who.Username, "uid": who.UID, "groups": anyList(who.Groups), "extra": extraOf(who.Extra)},
		"name":     o.Name, "namespace": o.Namespace, "dryRun": strings.Contains(e.RequestURI, "dryRun=All"),
	}
	if o.Subresource != "" {
		request["subResource"], request["requestSubResource"] = o.Subresource, o.Subresource
	}
	field := "object"
	if operation == "DELETE" {
		field = "oldObject"
	}
	b := value.AppendJSON([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":`), request)
	b = append(b[:len(b)-1], `,"`+field+`":`...)
	b = append(append(b, withNamespace(object, namespace)...), `}}`...)
	return string(b), at, nil
}

// withNamespace returns the object with its namespace, which admission sees in it.
func withNamespace(object json.RawMessage, namespace string) []byte {
	if namespace == "" {
		return object
	}
	v, err := value.DecodeJSON(object)
	o, _ := v.(map[string]any)
	metadata, ok := o["metadata"].(map[string]any)
	if err != nil || !ok || metadata["namespace"] != nil {
		return object
	}
	metadata["namespace"] = namespace
	return value.AppendJSON(nil, o)
}

// kindOf returns the kind that an object states.
func kindOf(object json.RawMessage) (schema.GroupVersionKind, error) {
	if len(object) == 0 {
		return schema.GroupVersionKind{}, nil
	}
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(object, &head); err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("the object of the event: %w", err)
	}
	return schema.FromAPIVersionAndKind(head.APIVersion, head.Kind), nil
}

func anyList(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}

func extraOf(in map[string][]string) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[k] = anyList(v)
	}
	return out
}
