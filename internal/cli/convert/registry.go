package convert

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math/rand"
	"strings"

	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/imageverify"
	"ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// registry simulates all registries and signers in the comparison, without a network. Its answer for an image depends on the digest and
// on all parts of the attestor, so two policies get the same answers only if they send the same queries.
type registry struct {
	// content are the fields of the statements of each type that the policy reads.
	content map[string]*value.Fields
	sampler sampler
	// extractors find the images of the kinds for which the rule has some.
	extractors map[string][]imageref.Extractor
}

func newRegistry(s *sampler, original map[string]any) registry {
	return registry{content: contents(original), sampler: *s, extractors: extractors(original)}
}

// digestOf returns the digest of the image with the given reference.
func digestOf(reference string) string {
	sum := sha256.Sum256([]byte(reference))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// parsed parses an image reference and adds the digest.
func parsed(reference string) (imageref.Reference, error) {
	r, err := imageref.Defaults{}.Parse(reference)
	if err == nil && r.Digest == "" {
		r.Digest = digestOf(strings.Replace(r.Path, "library/", "", 1) + ":" + r.Tag)
	}
	return r, err
}

// Image returns the data of an image.
func (registry) Image(_ context.Context, q world.ImageRequest) (map[string]any, error) {
	r, err := parsed(q.Reference)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"image": q.Reference, "resolvedImage": r.Repository() + "@" + r.Digest, "registry": r.Registry, "repository": r.Path, "identifier": cmp.Or(r.Tag, r.Digest),
		"tag": r.Tag, "digest": r.Digest, "manifest": map[string]any{}, "config": map[string]any{},
	}, nil
}

// Verify implements world.Signatures. For each attestor, about one in three images is not signed.
func (registry) Verify(_ context.Context, q world.SignatureRequest) (string, error) {
	r, err := parsed(q.Image)
	if err != nil {
		return "", err
	}
	question, err := json.Marshal(canonical(q))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append([]byte(r.Digest+" "+q.Type), question...))
	if sum[0]%3 == 0 {
		return "", &world.UnverifiedError{Reason: "no matching signatures"}
	}
	return r.Digest, nil
}

// Statements implements world.Signatures.
func (s registry) Statements(ctx context.Context, q world.SignatureRequest) (string, []world.Statement, error) {
	digest, err := s.Verify(ctx, q)
	if err != nil {
		return "", nil, err
	}
	fields := s.content[q.Type]
	if fields == nil {
		fields = &value.Fields{}
	}
	question, err := json.Marshal(canonical(q))
	if err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(append([]byte(digest), question...))
	of := s.sampler                                                              // each statement is the same for both policies
	of.random = rand.New(rand.NewSource(int64(binary.BigEndian.Uint32(sum[:])))) //nolint:gosec // the same statements each time
	var out []world.Statement
	for range 1 + of.random.Intn(2) {
		predicate := of.value(schema.Any, fields, 1)
		if len(fields.Names()) == 0 {
			predicate = map[string]any{}
		}
		var document any = map[string]any{"predicateType": q.Type, "predicate": predicate}
		if q.Format == imageverify.FormatNotary {
			document = predicate
		}
		out = append(out, world.Statement{Type: q.Type, Predicate: predicate, Document: document})
	}
	return digest, out, nil
}

// pinned returns the images of an object. For images with a digest it returns only repository and digest, because the two languages treat
// tags differently.
func (s registry) pinned(object map[string]any) string {
	kind, _ := object["kind"].(string)
	images, err := imageref.Defaults{}.Find(kind, object)
	if own := s.extractors[kind]; own != nil {
		images, err = imageref.Defaults{}.Extract(own, object, nil)
	}
	if err != nil {
		return err.Error()
	}
	texts := make([]string, len(images))
	for i := range images {
		texts[i] = images[i].Pointer + " " + images[i].Pinned()
	}
	return strings.Join(texts, ", ")
}

// canonical returns the query in a form that is the same for both languages.
func canonical(q world.SignatureRequest) map[string]any {
	out := map[string]any{"notary": q.Format == imageverify.FormatNotary, "repository": q.Repository, "prefix": q.TagPrefix, "referrers": q.Referrers}
	a := q.Attestor
	if a == nil {
		return out
	}
	certificates := ""
	if a.Certificate != nil {
		certificates = cmp.Or(strings.TrimSpace(a.Certificate.Certificate), strings.TrimSpace(a.Certificate.Chain))
	}
	if q.Format == imageverify.FormatNotary { // a Notary trust store holds only certificates
		out["certificates"] = certificates
		return out
	}
	if k := a.Key; k != nil {
		uri := cmp.Or(k.KMS, k.PublicKey)
		if k.SecretName != "" {
			uri = "k8s://" + k.SecretNamespace + "/" + k.SecretName
		}
		out["key"], out["algorithm"] = strings.TrimSpace(uri), cmp.Or(a.Algorithm, "sha256")
	}
	rekor, annotations := a.Rekor, maps.Clone(a.Annotations)
	rekor.URL = cmp.Or(rekor.URL, "https://rekor.sigstore.dev")
	if rekor.Ignore {
		rekor.URL = ""
	}
	out["certificate"], out["keyless"], out["rekor"], out["ctlog"], out["trust"] = a.Certificate, a.Keyless, rekor, a.CTLog, a.Trust
	if len(annotations) > 0 {
		out["annotations"] = annotations
	}
	return out
}

// Blob implements world.Signatures. Converted rules never verify texts.
func (registry) Blob(context.Context, world.BlobRequest) (string, error) {
	return "", &world.UnverifiedError{Reason: "no matching signatures"}
}
