package admission

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// errNoRequest is the error for a review without a request.
var errNoRequest = errors.New("the AdmissionReview has no request")

// The only version of AdmissionReview that the server accepts.
const (
	reviewAPIVersion = "admission.k8s.io/v1"
	reviewKind       = "AdmissionReview"
)

// decodeReview decodes an AdmissionReview in one pass. It decodes the object at once, and the old object, which few rules use, at its first
// use. reads returns the fields of the object that the rules read, from the kind and operation that precede the object in the review; nil
// for all fields.
func decodeReview(body string, reads func(*policy.Request) *value.Fields) (*policy.Request, error) {
	r := value.NewReader(body)
	d := &decoder{r: r, reads: reads, req: &policy.Request{Review: policy.Review{Origin: policy.FromAdmission}}}
	if err := r.Object(d.envelope); err != nil {
		return nil, err
	}
	if err := r.End(); err != nil {
		return nil, err
	}
	if d.req.Object.Partial() && d.about != aboutOf(d.req) {
		d.req.Object = d.req.Object.Whole() // a later field changed which rules are selected
	}
	if d.apiVersion != reviewAPIVersion || d.kind != reviewKind {
		return nil, fmt.Errorf("expected %s %s, got %q %q", reviewAPIVersion, reviewKind, d.apiVersion, d.kind)
	}
	if !d.found {
		return nil, errNoRequest
	}
	d.req.RequestGVK = d.req.GVK
	return d.req, nil
}

type decoder struct {
	r                *value.Reader
	req              *policy.Request
	apiVersion, kind string
	found            bool
	reads            func(*policy.Request) *value.Fields
	about            about // the fields that preceded the object
}

// about holds the fields of the review that select the rules for an object.
type about struct {
	kind        schema.GroupVersionKind
	resource    schema.GroupVersionResource
	subresource string
	namespaced  bool
	operation   policy.Operation
}

func aboutOf(r *policy.Request) about {
	return about{r.GVK, r.GVR, r.Subresource, r.ObjectNamespace() != "", r.Operation}
}

func (d *decoder) envelope(key string) (err error) {
	switch key {
	case "apiVersion":
		d.apiVersion, err = d.r.String()
	case "kind":
		d.kind, err = d.r.String()
	case "request":
		if d.r.Null() {
			return nil
		}
		d.found = true
		err = d.r.Object(d.request)
	}
	return err
}

func (d *decoder) request(key string) (err error) {
	r, req := d.r, d.req
	switch key {
	case "uid":
		req.UID, err = r.String()
	case "kind":
		err = r.Object(func(key string) error { return d.part(key, "kind", &req.GVK.Group, &req.GVK.Version, &req.GVK.Kind) })
	case "requestKind":
		k, a := &req.GVK, &req.Asked.GVK
		err = d.asked("kind", [3]*string{&k.Group, &k.Version, &k.Kind}, [3]*string{&a.Group, &a.Version, &a.Kind})
	case "resource":
		err = r.Object(func(key string) error {
			return d.part(key, "resource", &req.GVR.Group, &req.GVR.Version, &req.GVR.Resource)
		})
	case "requestResource":
		g, a := &req.GVR, &req.Asked.GVR
		err = d.asked("resource", [3]*string{&g.Group, &g.Version, &g.Resource}, [3]*string{&a.Group, &a.Version, &a.Resource})
	case "subResource":
		req.Subresource, err = r.String()
	case "requestSubResource":
		req.Asked.Subresource, err = r.String()
	case "name":
		req.Name, err = r.String()
	case "namespace":
		req.Namespace, err = r.String()
	case "operation":
		var op string
		op, err = r.String()
		req.Operation = policy.Operation(op)
	case "userInfo":
		req.User = &policy.User{}
		err = r.Object(d.user)
	case "object":
		req.Object, err = d.document()
	case "oldObject":
		if r.Null() {
			return nil
		}
		var raw string
		if raw, err = r.Raw(); err == nil {
			req.OldObject = value.FromJSON(raw)
		}
	case "dryRun":
		req.DryRun, err = r.Bool()
	case "options":
		req.Options, err = r.Any()
	}
	return err
}

// asked reads the kind and resource of the original request. They usually equal those of the review, which precede them; then they are not
// decoded again.
func (d *decoder) asked(last string, about, into [3]*string) error {
	if d.r.Null() {
		return nil
	}
	raw, err := d.r.Raw()
	if err != nil {
		return err
	}
	var room [192]byte
	usual := append(append(room[:0], `{"group":"`...), *about[0]...)
	usual = append(append(usual, `","version":"`...), *about[1]...)
	usual = append(append(append(usual, `","`...), last...), `":"`...)
	usual = append(append(usual, *about[2]...), `"}`...)
	if raw == string(usual) {
		for i := range into {
			*into[i] = *about[i]
		}
		return nil
	}
	sub := decoder{r: value.NewReader(raw)}
	return sub.r.Object(func(key string) error { return sub.part(key, last, into[0], into[1], into[2]) })
}

// part reads one member of a group-version-kind or group-version-resource.
func (d *decoder) part(key, last string, group, version, name *string) (err error) {
	switch key {
	case "group":
		*group, err = d.r.String()
	case "version":
		*version, err = d.r.String()
	case last:
		*name, err = d.r.String()
	}
	return err
}

func (d *decoder) document() (*value.Doc, error) {
	if d.r.Null() {
		return nil, nil
	}
	var fields *value.Fields
	// Rules for the parent resource also evaluate the object of a subresource request.
	if d.about = aboutOf(d.req); d.reads != nil && d.about.kind.Kind != "" && d.about.operation != "" && d.about.subresource == "" {
		fields = d.reads(d.req)
	}
	return d.r.Part(fields)
}

func (d *decoder) user(key string) (err error) {
	u := d.req.User
	switch key {
	case "username":
		u.Username, err = d.r.String()
	case "uid":
		u.UID, err = d.r.String()
	case "groups":
		u.Groups, err = d.strings()
	case "extra":
		err = d.r.Object(func(key string) error {
			values, err := d.strings()
			if u.Extra == nil {
				u.Extra = map[string][]string{}
			}
			u.Extra[key] = values
			return err
		})
	}
	return err
}

func (d *decoder) strings() (out []string, err error) {
	err = d.r.Array(func(int) error {
		s, err := d.r.String()
		out = append(out, s)
		return err
	})
	return out, err
}

// coreNamespace is the kind whose objects are their own namespace.
var coreNamespace = schema.GroupKind{Kind: "Namespace"}
