package sigverify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/ephor-dev/ephor/internal/world"
)

// Finding is one signature, and what an attestor says of it.
type Finding struct {
	Place string `json:"place"` // tag or digest, and layer
	// Kind is signature, attestation or bundle; Type is the type of its statement.
	Kind string `json:"kind"`
	Type string `json:"type,omitempty"`
	// Subjects and Issuer are those of the certificate, which is not trusted unless the signature is accepted; none for a bare key.
	Subjects []string `json:"subjects,omitempty"`
	Issuer   string   `json:"issuer,omitempty"`
	// Logged are the times of its log entries.
	Logged []time.Time `json:"logged,omitempty"`
	// Accepted: it satisfies the attestor. Else Reason says why not; with Unknown that could not be found out.
	Accepted bool   `json:"accepted"`
	Unknown  bool   `json:"unknown,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// Examine finds all signatures of an image, or with a type all statements of the type, and says of each whether it satisfies the attestor. It returns the digest of
// the image. It is for people; nothing is left out because another signature satisfies.
func (v *Verifier) Examine(ctx context.Context, r world.SignatureRequest) (string, []Finding, error) {
	i, err := v.open(ctx, r)
	if err != nil {
		return "", nil, err
	}
	digest := i.digest.String()
	a, err := v.prepare(ctx, r.Attestor, r.Registry.Confined)
	if err != nil {
		return digest, nil, err
	}
	all, err := i.all(ctx, r)
	if err != nil {
		return digest, nil, err
	}
	out := []Finding{}
	for _, f := range all {
		if r.Type == "" || f.statement != nil && f.statement.PredicateType == r.Type {
			out = append(out, a.examine(ctx, f, i.subject()))
		}
	}
	return digest, out, nil
}

// all are the artefacts that the request asks for.
func (i *image) all(ctx context.Context, r world.SignatureRequest) ([]*artefact, error) {
	if r.Type != "" {
		return i.attestations(ctx, r.Type, r.Format == Bundle)
	}
	var out []*artefact
	if r.Format != Bundle {
		tagged, err := i.tagSignatures(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, tagged...)
	}
	referrers, err := i.signatureReferrers(ctx, r.Format == Bundle)
	if err != nil {
		return nil, err
	}
	for _, r := range referrers {
		read, err := i.referred(ctx, r)
		if err != nil {
			return nil, err
		}
		out = append(out, read...)
	}
	return out, nil
}

// ExamineBundle says whether a bundle is a signature of the content, or a statement about it, that satisfies the attestor. It returns the digest of the content.
func (v *Verifier) ExamineBundle(ctx context.Context, bundle, content []byte, by *world.Attestor) (string, Finding, error) {
	sum := sha256.Sum256(content)
	of := subject{v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}, func(context.Context) ([]byte, error) { return content, nil }}
	a, err := v.prepare(ctx, by, false)
	if err != nil {
		return of.digest.String(), Finding{}, err
	}
	f := &artefact{bundle: true}
	f.broken = f.parseBundle(bundle)
	return of.digest.String(), a.examine(ctx, f, of), nil
}

// examine says what the attestor says of an artefact.
func (a *attestor) examine(ctx context.Context, f *artefact, of subject) Finding {
	out := Finding{Place: f.place, Kind: "signature"}
	switch {
	case f.bundle:
		out.Kind = "bundle"
	case f.envelope != nil:
		out.Kind = "attestation"
	}
	if f.statement != nil {
		out.Type = f.statement.PredicateType
	}
	if f.cert != nil {
		out.Subjects = subjects(f.cert)
		out.Issuer, _ = issuerOf(f.cert)
	}
	for _, e := range f.entries {
		if at := e.IntegratedTime(); !at.IsZero() {
			out.Logged = append(out.Logged, at.UTC())
		}
	}
	if f.old != nil {
		out.Logged = append(out.Logged, time.Unix(f.old.at, 0).UTC())
	}
	err := a.check(ctx, f, of)
	if out.Accepted = err == nil; err != nil {
		out.Reason, out.Unknown = err.Error(), !isRefusal(err)
	}
	return out
}
