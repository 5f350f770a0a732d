package decision

import (
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Request is the part of a review's request that the record does not have. With both, the review can be evaluated again.
type Request struct {
	// API group of the resource; absent for the core group.
	Group string `json:"group,omitempty" proto:"1"`
	// API version of the resource.
	Version string `json:"version" proto:"2"`
	// The resource, such as pods.
	Resource string `json:"resource" proto:"3"`
	// The original request, if the API server converted it.
	Asked *Asked `json:"asked,omitempty" proto:"4"`
	// Whether the record lacks the user's name as the API server sent it.
	Anonymous bool `json:"anonymous,omitempty" proto:"5"`
	// UID of the user.
	UserUID string `json:"user.id,omitempty" proto:"6"`
	// Further data of the user.
	UserExtra map[string][]string `json:"user.extra,omitempty" proto:"7"`
	// The object.
	Object *Body `json:"object,omitempty" proto:"8"`
	// The object before an update, or the deleted one.
	OldObject *Body `json:"oldObject,omitempty" proto:"9"`
	// The options of the request.
	Options *Body `json:"options,omitempty" proto:"10"`
	// The lookups of the rules, with --decisionsLookups.
	Lookups *Lookups `json:"lookups,omitempty" proto:"12"`
	// JSON pointers to the values that were replaced by `**REDACTED**`, such as /object/spec/containers/*/env/*/value.
	Cut []string `json:"cut,omitempty" proto:"11"`
	// Whether the request is recorded, but the reader may not read such objects. Nothing else is set then.
	Withheld bool `json:"withheld,omitempty"`
}

// Asked identifies the request that the API server received, before it converted it.
type Asked struct {
	// API group; absent for the core group.
	Group string `json:"group,omitempty" proto:"1"`
	// API version.
	Version string `json:"version" proto:"2"`
	// Kind.
	Kind string `json:"kind" proto:"3"`
	// Resource.
	Resource string `json:"resource" proto:"4"`
	// Subresource.
	Subresource string `json:"subresource,omitempty" proto:"5"`
}

// Bodies returns the texts of the request.
func (r *Request) Bodies() (out []*Body) {
	for _, b := range []*Body{r.Object, r.OldObject, r.Options} {
		if b != nil {
			out = append(out, b)
		}
	}
	for _, b := range r.Lookups.bodies() {
		out = append(out, *b)
	}
	return out
}

// mapped returns a copy of the request with other Bodies.
func (r *Request) mapped(with func(*Body) *Body) *Request {
	out := *r
	for _, b := range []**Body{&out.Object, &out.OldObject, &out.Options} {
		if *b != nil {
			*b = with(*b)
		}
	}
	out.Lookups = r.Lookups.clone()
	for _, b := range out.Lookups.bodies() {
		*b = with(*b)
	}
	return &out
}

// WithoutTexts returns a copy of the request whose Bodies have digests only.
func (r *Request) WithoutTexts() *Request {
	return r.mapped(func(b *Body) *Body { return &Body{Digest: b.Digest} })
}

// copied is the copy of a request without secret values.
type copied struct {
	object, oldObject, options *part
	cut                        []string
	// hidden has the replaced values, in every form in which a text may contain them.
	hidden []string
}

// copyOf copies the objects of a request without the values that the Redaction selects. It does not copy the objects of known requests
// again; known may be nil. Secrets are not kept in known.
func (r *Redaction) copyOf(req *policy.Request, known *parts) (out copied, err error) {
	secret := isSecret(req)
	if secret {
		known = nil
	}
	pointers := r.of(secret)
	for _, d := range []struct {
		doc  *value.Doc
		name string
		into **part
	}{{req.Object, objectPart, &out.object}, {req.OldObject, oldObjectPart, &out.oldObject}} {
		text, err := textOf(d.doc)
		if err != nil || text == "" {
			if err != nil {
				return out, err
			}
			continue
		}
		p, err := known.of(d.name, text, func() (*part, error) {
			text, paths, found, err := cut(text, d.name, pointers)
			return &part{size: len(text), text: text, cut: paths, hidden: formsOf(found)}, err
		})
		if err != nil {
			return out, err
		}
		*d.into = p
		out.cut, out.hidden = joined(out.cut, p.cut), hiding(out.hidden, p.hidden)
	}
	if req.Options != nil {
		text := value.JSON(req.Options)
		if out.options, err = known.of(optionsPart, text, func() (*part, error) { return &part{size: len(text), text: text}, nil }); err != nil {
			return out, err
		}
	}
	return out, nil
}

// textOf returns the text of a whole document; empty for nil.
func textOf(d *value.Doc) (string, error) {
	if text := d.Text(); text != "" {
		return text, nil
	}
	v, err := d.Value()
	if err != nil || v == nil {
		return "", err
	}
	return value.JSON(v), nil
}

// errLarge is the error for a request that is too large to be recorded.
var errLarge = errors.New("the request is too large")

// maxRequest bounds the objects of a recorded request, in bytes.
const maxRequest = 1 << 20

// requestOf returns the request of a record.
func requestOf(req *policy.Request, c *copied, users bool) (*Request, error) {
	size := 0
	for _, p := range []*part{c.object, c.oldObject, c.options} {
		if p != nil {
			size += p.size
		}
	}
	if size > maxRequest {
		return nil, errLarge
	}
	out := &Request{Group: req.GVR.Group, Version: req.GVR.Version, Resource: req.GVR.Resource, Cut: c.cut}
	if a := req.AskedFor(); a.GVK != req.RequestGVK || a.GVR != req.GVR || a.Subresource != req.Subresource {
		out.Asked = &Asked{Group: a.GVK.Group, Version: a.GVK.Version, Kind: a.GVK.Kind, Resource: a.GVR.Resource, Subresource: a.Subresource}
	}
	if u := req.User; u != nil && users {
		out.UserUID, out.UserExtra = u.UID, u.Extra
	} else {
		out.Anonymous = true
	}
	for _, b := range []struct {
		part *part
		into **Body
	}{{c.object, &out.Object}, {c.oldObject, &out.OldObject}, {c.options, &out.Options}} {
		if b.part == nil || b.part.size == 0 {
			continue
		}
		if err := b.part.takeBody(); err != nil {
			return nil, err
		}
		*b.into = b.part.body
	}
	return out, nil
}

// Reasons why a record has no review.
var (
	// ErrNoRequest: requests are not recorded, or this one was too large.
	ErrNoRequest = errors.New("the record does not hold the request")
	// ErrWithheld: the reader of the store may not read the objects of the request.
	ErrWithheld = errors.New("the request is recorded, but the reader may not read such objects")
)

// Review returns the answered AdmissionReview as JSON, with Redacted in place of cut values.
func (r *Record) Review() ([]byte, error) { return r.AppendReview(make([]byte, 0, 16<<10)) }

// AppendReview appends the Review.
func (r *Record) AppendReview(out []byte) ([]byte, error) {
	q := r.Request
	switch {
	case q == nil:
		return nil, ErrNoRequest
	case q.Withheld:
		return nil, ErrWithheld
	}
	kind := schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
	resource := schema.GroupVersionResource{Group: q.Group, Version: q.Version, Resource: q.Resource}
	name := r.Name
	if strings.HasSuffix(name, "*") {
		name = "" // the API server generates it later
	}
	out = append(out, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":`...)
	out = value.AppendJSON(out, r.UID)
	out = value.AppendJSON(append(out, `,"kind":`...), policy.KindDocument(kind))
	out = value.AppendJSON(append(out, `,"resource":`...), policy.ResourceDocument(resource))
	if r.Subresource != "" {
		out = value.AppendJSON(append(out, `,"subResource":`...), r.Subresource)
	}
	asked, askedSub := resource, r.Subresource
	if a := q.Asked; a != nil {
		kind = schema.GroupVersionKind{Group: a.Group, Version: a.Version, Kind: a.Kind}
		asked, askedSub = schema.GroupVersionResource{Group: a.Group, Version: a.Version, Resource: a.Resource}, a.Subresource
	}
	out = value.AppendJSON(append(out, `,"requestKind":`...), policy.KindDocument(kind))
	out = value.AppendJSON(append(out, `,"requestResource":`...), policy.ResourceDocument(asked))
	if askedSub != "" {
		out = value.AppendJSON(append(out, `,"requestSubResource":`...), askedSub)
	}
	out = value.AppendJSON(append(out, `,"name":`...), name)
	out = value.AppendJSON(append(out, `,"namespace":`...), r.Namespace)
	out = value.AppendJSON(append(out, `,"operation":`...), r.Operation)
	if !q.Anonymous {
		user := map[string]any{"username": r.User, "groups": list(r.Groups)}
		if q.UserUID != "" {
			user["uid"] = q.UserUID
		}
		if len(q.UserExtra) > 0 {
			extra := make(map[string]any, len(q.UserExtra))
			for k, v := range q.UserExtra {
				extra[k] = list(v)
			}
			user["extra"] = extra
		}
		out = value.AppendJSON(append(out, `,"userInfo":`...), user)
	}
	out = value.AppendJSON(append(out, `,"dryRun":`...), r.DryRun)
	var err error
	for _, b := range []struct {
		member string
		body   *Body
	}{{`,"object":`, q.Object}, {`,"oldObject":`, q.OldObject}, {`,"options":`, q.Options}} {
		if b.body == nil {
			continue
		}
		if out, err = b.body.appendText(append(out, b.member...)); err != nil {
			return nil, err
		}
	}
	return append(out, "}}"...), nil
}

func list(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}
