package taped

import (
	"context"

	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

type lists struct {
	side
	next world.Lists
}

func (l lists) List(ctx context.Context, q world.Query) ([]map[string]any, error) {
	asked := question{method: list, asked: words(q.APIVersion, q.Kind, q.Namespace, q.Selector, q.Name), secrets: kinds.IsSecret(q.APIVersion, q.Kind)}
	return ask(ctx, l.Tape, l.of(asked), when(l.next, func(ctx context.Context) ([]map[string]any, error) { return l.next.List(ctx, q) }))
}

// finder adds the lookup of kinds to lists.
type finder struct {
	lists
	find world.KindFinder
}

func (f finder) Find(ctx context.Context, apiVersion, kind string) ([]world.Kind, error) {
	return ask(ctx, f.Tape, f.of(question{method: find, asked: words(apiVersion, kind)}), when(f.find, func(ctx context.Context) ([]world.Kind, error) {
		return f.find.Find(ctx, apiVersion, kind)
	}))
}

func (s side) lists(next world.Lists, find bool) world.Lists {
	if !find {
		return lists{s, next}
	}
	of, _ := next.(world.KindFinder)
	return finder{lists{s, next}, of}
}

type namespaces struct {
	side
	next world.Namespaces
}

func (n namespaces) Labels(ctx context.Context, name string) (map[string]string, error) {
	return ask(ctx, n.Tape, n.of(question{method: Labels, asked: words(name)}), when(n.next, func(ctx context.Context) (map[string]string, error) {
		return n.next.Labels(ctx, name)
	}))
}

// namespaceObjects adds the lookup of whole Namespaces to namespaces.
type namespaceObjects struct {
	namespaces
	objects world.NamespaceObjects
}

func (n namespaceObjects) Namespace(ctx context.Context, name string) (map[string]any, error) {
	return ask(ctx, n.Tape, n.of(question{method: namespace, asked: words(name)}), when(n.objects, func(ctx context.Context) (map[string]any, error) {
		return n.objects.Namespace(ctx, name)
	}))
}

func (s side) namespaces(next world.Namespaces, objects bool) world.Namespaces {
	if !objects {
		return namespaces{s, next}
	}
	of, _ := next.(world.NamespaceObjects)
	return namespaceObjects{namespaces{s, next}, of}
}

type images struct {
	side
	next world.Images
}

func (i images) Image(ctx context.Context, r world.ImageRequest) (map[string]any, error) {
	return ask(ctx, i.Tape, i.of(imageQuestion(image, r)), when(i.next, func(ctx context.Context) (map[string]any, error) { return i.next.Image(ctx, r) }))
}

// imageDigests adds the lookup of digests to images.
type imageDigests struct {
	images
	digests world.Digests
}

func (i imageDigests) Digest(ctx context.Context, r world.ImageRequest) (string, error) {
	return ask(ctx, i.Tape, i.of(imageQuestion(imageDigest, r)), when(i.digests, func(ctx context.Context) (string, error) { return i.digests.Digest(ctx, r) }))
}

func (s side) images(next world.Images, digests bool) world.Images {
	if !digests {
		return images{s, next}
	}
	of, _ := next.(world.Digests)
	return imageDigests{images{s, next}, of}
}

type scopes struct {
	side
	next world.Kinds
}

func (k scopes) Namespaced(ctx context.Context, apiVersion, kind string) (bool, error) {
	return ask(ctx, k.Tape, k.of(question{method: namespaced, asked: words(apiVersion, kind)}), when(k.next, func(ctx context.Context) (bool, error) {
		return k.next.Namespaced(ctx, apiVersion, kind)
	}))
}

type resourceFinder struct {
	side
	next world.ResourceFinder
}

func (f resourceFinder) Resource(ctx context.Context, apiVersion, kind string) (string, error) {
	return ask(ctx, f.Tape, f.of(question{method: plural, asked: words(apiVersion, kind)}), when(f.next, func(ctx context.Context) (string, error) {
		return f.next.Resource(ctx, apiVersion, kind)
	}))
}

type resourceKinds struct {
	side
	next world.ResourceKinds
}

func (k resourceKinds) Served(ctx context.Context, group, version, plural string) ([]world.Resource, error) {
	return ask(ctx, k.Tape, k.of(question{method: served, asked: words(group, version, plural)}), when(k.next, func(ctx context.Context) ([]world.Resource, error) {
		return k.next.Served(ctx, group, version, plural)
	}))
}

func (s side) kinds(next world.Kinds, plural, served bool) world.Kinds {
	finds, _ := next.(world.ResourceFinder)
	serves, _ := next.(world.ResourceKinds)
	k, f, r := scopes{s, next}, resourceFinder{s, finds}, resourceKinds{s, serves}
	switch {
	case plural && served:
		return struct {
			world.Kinds
			world.ResourceFinder
			world.ResourceKinds
		}{k, f, r}
	case plural:
		return struct {
			world.Kinds
			world.ResourceFinder
		}{k, f}
	case served:
		return struct {
			world.Kinds
			world.ResourceKinds
		}{k, r}
	}
	return k
}

type signatures struct {
	side
	next world.Signatures
}

// verified is an answer of Signatures.
type verified struct {
	digest     string
	remembered bool
	statements []world.Statement
}

func (v verified) encode() any {
	list := make([]any, len(v.statements))
	for i, s := range v.statements {
		list[i] = map[string]any{"type": s.Type, "predicate": s.Predicate, "document": s.Document}
	}
	return map[string]any{"digest": v.digest, "remembered": v.remembered, "statements": list}
}

func (v *verified) decode(from any) bool {
	m, ok := from.(map[string]any)
	if !ok {
		return false
	}
	v.digest, _ = m["digest"].(string)
	v.remembered, _ = m["remembered"].(bool)
	list, ok := m["statements"].([]any)
	if !ok {
		return false
	}
	for _, item := range list {
		s, ok := item.(map[string]any)
		if !ok {
			return false
		}
		kind, _ := s["type"].(string)
		v.statements = append(v.statements, world.Statement{Type: kind, Predicate: s["predicate"], Document: s["document"]})
	}
	return true
}

func (s signatures) ask(ctx context.Context, method string, r world.SignatureRequest, next func(context.Context, world.SignatureRequest) (verified, error)) (verified, error) {
	v, err := ask(ctx, s.Tape, s.of(signatureQuestion(method, r)), when(s.next, func(ctx context.Context) (verified, error) {
		v, err := next(ctx, r)
		v.remembered = r.Remembered != nil && *r.Remembered
		return v, err
	}))
	if r.Remembered != nil && v.remembered {
		*r.Remembered = true
	}
	return v, err
}

func (s signatures) Verify(ctx context.Context, r world.SignatureRequest) (string, error) {
	v, err := s.ask(ctx, verify, r, func(ctx context.Context, r world.SignatureRequest) (v verified, err error) {
		v.digest, err = s.next.Verify(ctx, r)
		return v, err
	})
	return v.digest, err
}

func (s signatures) Statements(ctx context.Context, r world.SignatureRequest) (string, []world.Statement, error) {
	v, err := s.ask(ctx, statements, r, func(ctx context.Context, r world.SignatureRequest) (v verified, err error) {
		v.digest, v.statements, err = s.next.Statements(ctx, r)
		return v, err
	})
	return v.digest, v.statements, err
}

func (s signatures) Blob(ctx context.Context, r world.BlobRequest) (string, error) {
	q := question{method: blob, asked: "[]", hidden: []string{value.JSON(r)}}
	return ask(ctx, s.Tape, s.of(q), when(s.next, func(ctx context.Context) (string, error) { return s.next.Blob(ctx, r) }))
}

type seals struct {
	side
	next world.Seals
}

func (s seals) Seal(ctx context.Context, domain string, parts ...string) (string, error) {
	q := question{method: seal, asked: words(domain), hidden: parts}
	return ask(ctx, s.Tape, s.of(q), when(s.next, func(ctx context.Context) (string, error) { return s.next.Seal(ctx, domain, parts...) }))
}

func (s seals) Sealed(ctx context.Context, text, domain string, parts ...string) (bool, error) {
	q := question{method: sealed, asked: words(domain), hidden: append([]string{text}, parts...)}
	return ask(ctx, s.Tape, s.of(q), when(s.next, func(ctx context.Context) (bool, error) { return s.next.Sealed(ctx, text, domain, parts...) }))
}
