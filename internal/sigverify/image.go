package sigverify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"ephor.invalid/ephor/internal/fetch"
	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// image is one digest with the signatures that a registry holds for it. Everything is read once, when it is first needed.
type image struct {
	session    *registry.Session
	repository name.Repository // the repository of the image
	signatures name.Repository // the repository of its signatures; often the same
	digest     v1.Hash
	prefix     string // the prefix of signature tags
	verifier   *Verifier
	key        string // identifies the image among all images

	described fetch.Once[v1.Descriptor]
	signed    fetch.Once[[]*artefact] // the artefacts below the tag .sig
	attested  fetch.Once[[]*artefact] // the artefacts below the tag .att
	referring fetch.Once[[]referrer]
	artefacts fetch.Group[string, []*artefact] // by the digest of the referrer
	blobs     fetch.Group[string, []byte]
	verdicts  fetch.Group[string, verdict]
	counts    counts
	bytes     atomic.Int64
}

// signatureSource is where the signatures of an image are searched, and with which credentials.
type signatureSource struct {
	Registry           world.ImageRequest
	Repository, Prefix string
}

// open finds the digest of an image, and returns the cached data for it.
func (v *Verifier) open(ctx context.Context, r world.SignatureRequest) (*image, error) {
	reference, err := name.ParseReference(r.Image)
	if err != nil {
		return nil, fmt.Errorf("failed to parse image reference: %s: %w", r.Image, err)
	}
	at := signatureSource{r.Registry, r.Repository, r.TagPrefix}
	at.Registry.Reference, at.Registry.Platform = reference.Context().Name(), ""
	text, err := json.Marshal(at)
	if err != nil {
		return nil, err
	}
	key := string(text)
	if d, ok := reference.(name.Digest); ok {
		hash, err := v1.NewHash(d.DigestStr())
		if err != nil {
			return nil, err
		}
		if i := v.images.get(key+hash.String(), v.options.Now()); i != nil {
			return i, nil
		}
		session, err := v.session(ctx, r)
		if err != nil {
			return nil, err
		}
		return v.image(key, session, hash, r), nil
	}
	session, err := v.session(ctx, r)
	if err != nil {
		return nil, err
	}
	hash, err := v.digests.Get(ctx, key+reference.Identifier(), func(ctx context.Context) (v1.Hash, error) {
		return resolve(ctx, session)
	})
	if err != nil {
		if registry.NotFound(err) {
			return nil, unverified("%s", err)
		}
		return nil, err
	}
	return v.image(key, session, hash, r), nil
}

// session starts a session with the registry of an image.
func (v *Verifier) session(ctx context.Context, r world.SignatureRequest) (*registry.Session, error) {
	ask := registry.Ask{Image: r.Registry, Requests: maxRequests, MaxBytes: maxStatement}
	ask.Image.Reference = r.Image
	if r.Repository != "" {
		ask.Repositories = []string{r.Repository}
	}
	s, err := v.options.Registry.Open(ctx, ask)
	if err != nil {
		return nil, err
	}
	s.Close() // Fetch has a separate timeout
	return s, nil
}

// image returns the cached data for a digest.
func (v *Verifier) image(key string, s *registry.Session, digest v1.Hash, r world.SignatureRequest) *image {
	i := &image{session: s, repository: s.Image.Context(), signatures: s.Image.Context(), digest: digest, prefix: r.TagPrefix, verifier: v}
	i.artefacts.Keep, i.verdicts.Keep, i.blobs.Keep = true, true, true
	if len(s.Repositories) > 0 {
		i.signatures = s.Repositories[0]
	}
	i.key = key + digest.String()
	return v.images.add(i.key, i, v.options.Now())
}

// manifests are the media types to which a tag may refer.
var manifests = []string{
	string(types.OCIManifestSchema1), string(types.DockerManifestSchema2), string(types.OCIImageIndex), string(types.DockerManifestList),
}

// resolve returns the digest to which a tag refers.
func resolve(ctx context.Context, s *registry.Session) (v1.Hash, error) {
	f := registry.Fetch{Repository: s.Image.Context(), Path: "manifests/" + s.Image.Identifier(), Accept: manifests, Head: true, Max: maxIndex}
	answer, err := s.Fetch(ctx, f)
	if err == nil {
		if hash, err := v1.NewHash(answer.Header.Get("Docker-Content-Digest")); err == nil {
			return hash, nil
		}
	} else if !registry.Unsupported(err) {
		return v1.Hash{}, err
	}
	// A registry may answer a HEAD request without the digest, or not at all.
	f.Head = false
	if answer, err = s.Fetch(ctx, f); err != nil {
		return v1.Hash{}, err
	}
	sum := sha256.Sum256(answer.Body)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}, nil
}

// descriptor returns the descriptor of the image's manifest.
func (i *image) descriptor(ctx context.Context) (v1.Descriptor, error) {
	return i.described.Get(ctx, func(ctx context.Context) (v1.Descriptor, error) {
		answer, err := i.session.Fetch(ctx, registry.Fetch{Repository: i.repository, Path: "manifests/" + i.digest.String(), Accept: manifests, Max: maxIndex})
		if registry.NotFound(err) {
			return v1.Descriptor{}, unverified("%s", err)
		}
		if err != nil {
			return v1.Descriptor{}, err
		}
		if err := same(i.digest, answer.Body); err != nil {
			return v1.Descriptor{}, err
		}
		return v1.Descriptor{MediaType: types.MediaType(answer.Header.Get("Content-Type")), Digest: i.digest, Size: int64(len(answer.Body))}, nil
	})
}

// content reads the image's manifest.
func (i *image) content(ctx context.Context) ([]byte, error) {
	return i.fetch(ctx, i.repository, "manifests/"+i.digest.String(), i.digest, maxIndex, manifests...)
}

// manifest reads the manifest of an artefact by its tag or digest. It returns nil if the registry has none.
func (i *image) manifest(ctx context.Context, identifier string) (*v1.Manifest, error) {
	f := registry.Fetch{Repository: i.signatures, Path: "manifests/" + identifier, Accept: manifests[:2], Max: maxManifest}
	answer, err := i.session.Fetch(ctx, f)
	if registry.NotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if hash, err := v1.NewHash(identifier); err == nil {
		if err := same(hash, answer.Body); err != nil {
			return nil, err
		}
	}
	if err := i.took(answer.Body); err != nil {
		return nil, err
	}
	var m v1.Manifest
	if err := json.Unmarshal(answer.Body, &m); err != nil {
		return nil, fmt.Errorf("the manifest %s cannot be read: %w", identifier, err)
	}
	return &m, nil
}

// blob reads a layer.
func (i *image) blob(ctx context.Context, layer v1.Descriptor, max int64) ([]byte, error) {
	if layer.Size > max {
		return nil, unverified("layer size %d exceeds %d", layer.Size, max)
	}
	return i.fetch(ctx, i.signatures, "blobs/"+layer.Digest.String(), layer.Digest, max)
}

// fetch reads content by its digest and caches it.
func (i *image) fetch(ctx context.Context, from name.Repository, path string, digest v1.Hash, max int64, accept ...string) ([]byte, error) {
	return i.blobs.Get(ctx, path, func(ctx context.Context) ([]byte, error) {
		if err := i.took(nil); err != nil {
			return nil, err
		}
		answer, err := i.session.Fetch(ctx, registry.Fetch{Repository: from, Path: path, Accept: accept, Max: max})
		if err == nil {
			err = i.took(answer.Body)
		}
		if err != nil {
			return nil, err
		}
		return answer.Body, same(digest, answer.Body)
	})
}

// took counts content that was read. All of it stays in memory while the image is verified.
func (i *image) took(content []byte) error {
	if i.bytes.Add(int64(len(content))) > maxRead {
		return fmt.Errorf("the signatures and attestations of the image have more than %d bytes", maxRead)
	}
	return nil
}

// same checks that content has the digest. Only sha256 is supported.
func same(digest v1.Hash, content []byte) error {
	if digest.Algorithm != "sha256" {
		return unverified("digests of the kind %s are not supported", digest.Algorithm)
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != digest.Hex {
		return fmt.Errorf("the content from the registry does not have the digest %s", digest)
	}
	return nil
}

// counts holds the number of signatures at each place. A place that is read again after an outage counts once.
type counts struct {
	mu    sync.Mutex
	known map[string]int
}

// add counts signatures before they are read. All kinds count together.
func (c *counts) add(place string, n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]int{}
	}
	c.known[place] = n
	total := 0
	for _, n := range c.known {
		total += n
	}
	if total > maxSignatures {
		return unverified("the image has %d signatures, but at most %d are read", total, maxSignatures)
	}
	return nil
}

// referrer is a manifest that refers to the image.
type referrer struct {
	v1.Descriptor
	kind string // the artifact type
}

// attached reads the manifest of a referrer of a digest. A list of referrers proves nothing: a registry may make it up, and a user who may
// push can write the tag that holds it. Only the manifest, whose digest is checked, states to what it refers.
func (i *image) attached(ctx context.Context, s referrer, to v1.Hash) (*v1.Manifest, error) {
	m, err := i.manifest(ctx, s.Digest.String())
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, fmt.Errorf("the referrer %s no longer exists", s.Digest)
	case m.Subject == nil:
		return nil, unverified("the artifact %s refers to nothing, not to %s", s.Digest, to)
	case m.Subject.Digest != to:
		return nil, unverified("the artifact %s refers to %s, not to %s", s.Digest, m.Subject.Digest, to)
	}
	return m, nil
}

// referrers reads the referrers of a digest. If the registry has no referrers API, it reads the referrers tag.
func (i *image) referrers(ctx context.Context) ([]referrer, error) {
	return i.referring.Get(ctx, func(ctx context.Context) ([]referrer, error) { return i.referrersOf(ctx, i.digest) })
}

// referrersOf remembers that a repository has no referrers API only if the list is below the tag: many registries give the same answer for an
// image or a repository that they do not have.
func (i *image) referrersOf(ctx context.Context, digest v1.Hash) ([]referrer, error) {
	key := "\n" + i.signatures.Name()
	v, now := i.verifier, i.verifier.options.Now()
	if habit, _ := v.habits.Get(key); habit != withoutReferrers {
		out, err := i.referrersBy(ctx, "referrers/"+digest.String())
		if !registry.Unsupported(err) {
			return out, err
		}
	}
	out, err := i.referrersBy(ctx, "manifests/"+digest.Algorithm+"-"+digest.Hex)
	if registry.NotFound(err) {
		return nil, nil
	}
	if err == nil {
		v.habits.Put(key, withoutReferrers, now.Add(keepHabits), 0)
	}
	return out, err
}

// referrersBy reads a list of referrers page by page.
func (i *image) referrersBy(ctx context.Context, path string) (out []referrer, err error) {
	for first := true; path != ""; first = false {
		answer, err := i.session.Fetch(ctx, registry.Fetch{Repository: i.signatures, Path: path, Accept: []string{string(types.OCIImageIndex)}, Max: maxIndex})
		if err != nil && !first {
			return nil, fmt.Errorf("%s: %v", textPage, err) // not wrapped: the registry supports such requests
		}
		if err != nil {
			return nil, err
		}
		if err := i.took(answer.Body); err != nil {
			return nil, err
		}
		var index struct {
			Manifests []struct {
				v1.Descriptor
				ArtifactType string `json:"artifactType"`
			} `json:"manifests"`
		}
		if err := json.Unmarshal(answer.Body, &index); err != nil {
			return nil, fmt.Errorf("the list of referrers cannot be read: %w", err)
		}
		for _, m := range index.Manifests {
			out = append(out, referrer{m.Descriptor, m.ArtifactType})
		}
		if len(out) > maxReferrers {
			return nil, fmt.Errorf("too many referrers found, max limit is %d", maxReferrers)
		}
		if path, err = next(answer.Header.Values("Link"), i.signatures); err != nil {
			return nil, err
		}
	}
	return out, nil
}

const textPage = "a further page of referrers cannot be read"

// next returns the path of the next page, which must be in the same repository; empty on the last page.
func next(links []string, repository name.Repository) (path string, err error) {
	for _, link := range links {
		for one := range strings.SplitSeq(strings.TrimPrefix(link, "<"), "<") {
			target, attributes, _ := strings.Cut(strings.Replace(one, ">", "", 1), ";")
			if !strings.Contains(attributes, "next") {
				continue
			}
			_, path, _ = strings.Cut(strings.TrimSpace(target), "/v2/"+repository.RepositoryStr()+"/")
			if !strings.HasPrefix(path, "referrers/") {
				return "", fmt.Errorf("%s: %q is not in %s", textPage, value.Clip(target, 200), repository)
			}
			return path, nil
		}
	}
	return "", nil
}

// images caches images for a short time.
type images struct {
	mu    sync.Mutex
	known map[string]*kept
}

type kept struct {
	*image
	until time.Time
}

func (c *images) get(key string, now time.Time) *image {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[key]; k != nil && now.Before(k.until) {
		return k.image
	}
	return nil
}

// drop removes an image from the cache.
func (c *images) drop(i *image) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[i.key]; k != nil && k.image == i {
		delete(c.known, i.key)
	}
}

// add caches an image, unless it is already cached. It removes expired images, and the oldest ones if the cache is too large.
func (c *images) add(key string, i *image, now time.Time) *image {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[key]; k != nil && now.Before(k.until) {
		return k.image
	}
	if c.known == nil {
		c.known = map[string]*kept{}
	}
	c.known[key] = &kept{i, now.Add(keepImages)}
	for {
		var bytes int64
		var oldest string
		for name, k := range c.known {
			if !now.Before(k.until) {
				delete(c.known, name)
				continue
			}
			bytes += k.bytes.Load()
			if name != key && (oldest == "" || k.until.Before(c.known[oldest].until)) {
				oldest = name
			}
		}
		if oldest == "" || len(c.known) <= maxImages && bytes <= maxImageBytes {
			return i
		}
		delete(c.known, oldest)
	}
}

// A habit is where the signatures of a repository were found, or that it has no referrers API.
const (
	unknown = iota
	inTags
	inReferrers
	withoutReferrers
)
