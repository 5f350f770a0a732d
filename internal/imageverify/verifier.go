package imageverify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/trace"
	"ephor.invalid/ephor/internal/world"
)

// Formats of signatures.
const (
	FormatCosign = "Cosign"
	FormatNotary = "Notary"
)

var (
	errVerification = fmt.Errorf("image verification is %w", world.ErrUnavailable)
	errRegistries   = fmt.Errorf("image registries are %w", world.ErrUnavailable)
)

// Verifier checks who signed images, and which statements exist about them, in one evaluation. It makes each check once, holds all checks
// of an image to one digest, and records the answers. An inconclusive check is an error that is no world.UnverifiedError.
type Verifier struct {
	Call *policy.Call
	// Registry holds the credentials for the digests of tags.
	Registry world.ImageRequest
	// For is the requester for whom answers may be remembered, empty for none.
	For string
	// Answers are those of the attestors, in the order of the checks, for events.
	Answers []policy.Attested

	asked, recalled int // all answers, and those from the cache
	remembered      bool
}

// Image is an image during an evaluation.
type Image struct {
	imageref.Image
	// Known is the digest of the reference, or of its tag in this review; empty until it was requested.
	Known   string
	answers []answer
}

// NewImage returns an image about which nothing was asked.
func NewImage(i imageref.Image) Image { return Image{Image: i, Known: i.Digest} }

// answer is the answer about the signature of an image, or about its statements of a type.
type answer struct {
	question
	digest string
	found  []world.Statement
	err    error
}

type question struct {
	attestor   *world.Attestor
	statements bool
	kind       string
}

// Verify checks whether the attestor of the request signed the image or, if examine is set, statements of the requested type that satisfy it.
// Path is the attestor's field in the policy. Without an attestor it reads the statements of anyone, and records nothing.
func (v *Verifier) Verify(ctx context.Context, image *Image, path string, r world.SignatureRequest, examine func([]world.Statement) error) error {
	q := question{r.Attestor, examine != nil, r.Type}
	known := slices.IndexFunc(image.answers, func(a answer) bool { return a.question == q })
	at := known
	if known < 0 {
		at = len(image.answers)
		image.answers = append(image.answers, v.ask(ctx, image, &r, q))
	}
	a := &image.answers[at]
	err := a.err
	if err == nil && examine != nil {
		err = examine(a.found)
	}
	if err == nil {
		err = image.same(a.digest)
	}
	if known < 0 {
		v.record(&r, path, a.digest, err)
	}
	return err
}

// ask sends a request about the known digest of the image, or about its tag where registries cannot be reached.
func (v *Verifier) ask(ctx context.Context, image *Image, r *world.SignatureRequest, q question) answer {
	a := answer{question: q}
	signatures := v.Call.World.Signatures
	if signatures == nil {
		a.err = errVerification
		return a
	}
	if a.err = v.Find(ctx, image); a.err != nil {
		if missing := (*world.NoImageError)(nil); errors.As(a.err, &missing) {
			a.err = &world.UnverifiedError{Reason: a.err.Error()}
		}
		return a
	}
	reference := image.Reference
	if v.remembered = false; image.Known != "" {
		reference.Digest, r.For, r.Remembered = image.Known, v.For, &v.remembered
	}
	if r.Image = reference.String(); v.Call.Request.Trace != nil {
		r.Findings = new([]trace.Signature)
	}
	if q.statements {
		a.digest, a.found, a.err = signatures.Statements(ctx, *r)
	} else {
		a.digest, a.err = signatures.Verify(ctx, *r)
	}
	if v.asked++; v.remembered {
		v.recalled++
	}
	return a
}

// Recalled reports whether all answers came from the cache.
func (v *Verifier) Recalled() bool { return v.asked > 0 && v.recalled == v.asked }

// Find is Resolve if registries can be reached. Otherwise the first verification finds the digest.
func (v *Verifier) Find(ctx context.Context, image *Image) error {
	if v.Call.World.Images.Image == nil {
		return nil
	}
	return v.Resolve(ctx, image)
}

// Resolve finds the digest of the image's tag, once for the whole review: all checks, records and changes refer to it.
func (v *Verifier) Resolve(ctx context.Context, image *Image) (err error) {
	if image.Known == "" {
		image.Known, err = v.digest(ctx, image.String())
	}
	return err
}

// same compares the verified digest with the known one: all attestors must refer to the same content.
func (i *Image) same(digest string) error {
	switch {
	case digest == "":
		return errors.New("the verification gave no digest")
	case i.Known != "" && i.Known != digest:
		return &world.UnverifiedError{Reason: "digest mismatch: expected " + i.Known + ", received " + digest}
	}
	i.Known = digest
	return nil
}

// record keeps the answer of an attestor for events, and all signatures that were found for the trace. A request that could not be sent names
// no image.
func (v *Verifier) record(r *world.SignatureRequest, path, digest string, err error) {
	if r.Attestor == nil || r.Image == "" {
		return
	}
	image := r.Image
	if digest != "" && !strings.Contains(image, "@") {
		image += "@" + digest
	}
	v.Answers = append(v.Answers, asked(image, path, r.Type, r.Attestor, err))
	if r.Findings != nil {
		v.Call.Request.Trace.Attestor(noted(image, path, r.Type, r.Attestor, *r.Findings, err))
	}
}

// Asker returns the key under which answers for a part of a policy, in its version, are remembered.
func Asker(p *policy.Program, part string) string {
	return strings.Join([]string{p.Kind, p.Key(), p.UID, strconv.FormatInt(p.Generation, 10), part}, "\n")
}

// WithLogin adds the credentials of the request's object, if it has Pods.
func WithLogin(r *world.ImageRequest, request *policy.Request, object map[string]any) {
	pod, ok := imageref.PodOf(request.GVK.Kind, object)
	if !ok {
		return
	}
	r.Platform = pod.Platform
	r.Object = world.ObjectSecrets{Namespace: request.Namespace, Names: pod.Secrets, ServiceAccount: pod.ServiceAccount}
}
