package scan

import (
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/apipath"
	"ephor.invalid/ephor/internal/bounded"
	"ephor.invalid/ephor/internal/value"
)

// item is an object that was read from the API server. It is kept as text: unchanged objects, and fields that no policy reads, are never
// decoded.
type item struct {
	namespace, name, uid string
	// hash is the hash of the content that policies evaluate, meta that of the metadata that a watch shows.
	hash, meta uint64
	text       string
}

// decode returns the object with these fields; nil for all of them.
func (i *item) decode(fields *value.Fields) (*value.Doc, error) {
	return value.NewReader(i.text).Part(fields)
}

// page is one page of a list.
type page struct {
	version, next string // the version of the list, and the token of the next page; empty at the end
	items         []*item
}

// GetResourceVersion and GetContinue implement controller.Page.
func (p *page) GetResourceVersion() string { return p.version }
func (p *page) GetContinue() string        { return p.next }

// pageBytes bounds the text of a page. A page with more is read again in smaller pages; one object has at most a few MiB. wholeBytes bounds
// pages of one object: some servers ignore the limit and send the whole list.
const (
	pageBytes  = 16 << 20
	wholeBytes = 256 << 20
)

// list reads one page of objects of the kind; a *bounded.TooLargeError if fewer have to be read at once.
func list(ctx context.Context, c rest.Interface, r Resource, options metav1.ListOptions) (*page, error) {
	bound := int64(pageBytes)
	if options.Limit == 1 {
		bound = wholeBytes
	}
	text, err := read(ctx, c.Get().AbsPath(path(r, "", "")...).SpecificallyVersionedParams(&options, metav1.ParameterCodec, metav1.SchemeGroupVersion), bound)
	if err != nil {
		return nil, err
	}
	return pageOf(text, r.GVK())
}

// get reads one object of the kind; namespace is empty for one that is not in a namespace.
func get(ctx context.Context, c rest.Interface, r Resource, namespace, name string) (*item, error) {
	text, err := read(ctx, c.Get().AbsPath(path(r, namespace, name)...), pageBytes)
	if err != nil {
		return nil, err
	}
	return itemOf(text, r.GVK())
}

// path returns the path of an object, or without a name that of the list of its kind.
func path(r Resource, namespace, name string) []string {
	return apipath.Path{Group: r.Group, Version: r.Version, Resource: r.Resource, Namespace: namespace, Name: name}.Segments()
}

// read returns the body of the answer, which has at most bound bytes.
func read(ctx context.Context, r *rest.Request, bound int64) (string, error) {
	body, err := r.Stream(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	var text strings.Builder
	switch n, err := io.Copy(&text, io.LimitReader(body, bound+1)); {
	case err != nil:
		return "", err
	case n > bound:
		return "", fmt.Errorf("the answer of the API server is too large: %w", &bounded.TooLargeError{Limit: bound})
	}
	return text.String(), nil
}

// pageOf reads the text of a list. Its items are copies, so that an item that is kept does not keep the whole page.
func pageOf(text string, kind schema.GroupVersionKind) (*page, error) {
	out := &page{}
	r := value.NewReader(text)
	err := r.Object(func(key string) error {
		switch key {
		case "metadata":
			return r.Object(func(key string) (err error) {
				switch key {
				case "resourceVersion":
					out.version, err = cloned(r)
				case "continue":
					out.next, err = cloned(r)
				}
				return err
			})
		case "items":
			return r.Array(func(int) error {
				one, err := r.Raw()
				if err != nil {
					return err
				}
				i, err := itemOf(one, kind)
				out.items = append(out.items, i)
				return err
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, r.End()
}

// itemOf reads the identity and the hashes of an object from its text. Items of a list have neither an apiVersion nor a kind if the API
// server knows the kind itself; they are added.
func itemOf(text string, kind schema.GroupVersionKind) (*item, error) {
	out := &item{}
	var content maphash.Hash
	content.SetSeed(seed)
	var m metav1.ObjectMeta // the fields of metaHash
	typed := false
	r := value.NewReader(text)
	err := r.Object(func(key string) error {
		switch key {
		case "kind":
			typed = true
		case "apiVersion", "status":
		case "metadata":
			return r.Object(func(key string) error { return out.member(key, r, &m, &content) })
		default:
			raw, err := r.Raw()
			add(&content, key, raw)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.hash, out.meta = content.Sum64(), metaHash(m.ResourceVersion, m.Generation, m.Labels, m.Annotations)
	if typed {
		out.text = strings.Clone(text)
	} else {
		out.text = withKind(text, kind)
	}
	return out, nil
}

// member reads a member of the metadata.
func (i *item) member(key string, r *value.Reader, m *metav1.ObjectMeta, content *maphash.Hash) (err error) {
	switch key {
	case "name":
		i.name, err = cloned(r)
	case "namespace":
		i.namespace, err = cloned(r)
	case "uid":
		i.uid, err = cloned(r)
	case "resourceVersion":
		m.ResourceVersion, err = r.String()
	case "generation":
		var v any
		v, err = r.Any()
		m.Generation, _ = v.(int64)
	case "labels":
		m.Labels, err = texts(key, r, content)
	case "annotations":
		m.Annotations, err = texts(key, r, content)
	}
	return err
}

// texts reads labels or annotations, which are also content.
func texts(key string, r *value.Reader, content *maphash.Hash) (map[string]string, error) {
	raw, err := r.Raw()
	if err != nil {
		return nil, err
	}
	add(content, "\x00"+key, raw)
	out := map[string]string{}
	members := value.NewReader(raw)
	return out, members.Object(func(key string) (err error) {
		out[key], err = members.String()
		return err
	})
}

// add adds a member to the hash. The API server writes equal members alike.
func add(content *maphash.Hash, key, raw string) {
	for _, text := range []string{key, strconv.Itoa(len(raw)), ":", raw} {
		_, _ = content.WriteString(text)
	}
}

// withKind returns the text of an object with its apiVersion and kind.
func withKind(text string, kind schema.GroupVersionKind) string {
	out := make([]byte, 0, len(text)+len(kind.Group)+len(kind.Version)+len(kind.Kind)+32)
	out = append(out, `{"apiVersion":`...)
	out = value.AppendJSON(out, kind.GroupVersion().String())
	out = append(out, `,"kind":`...)
	out = value.AppendJSON(out, kind.Kind)
	if rest := strings.TrimSpace(text[1:]); rest != "}" {
		out = append(out, ',')
	}
	return string(append(out, text[1:]...))
}

// cloned reads a string that is kept longer than the text.
func cloned(r *value.Reader) (string, error) {
	text, err := r.String()
	return strings.Clone(text), err
}
