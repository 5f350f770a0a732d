package sigverify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"slices"
	"time"

	"ephor.invalid/ephor/internal/certificate"
	"ephor.invalid/ephor/internal/trace"
	"ephor.invalid/ephor/internal/world"
)

// Finding is one signature with the result of its check by an attestor.
type Finding = trace.Signature

// Examine finds all signatures of an image, or all statements of a type if the request has one, and reports for each whether it satisfies the
// attestor. It returns the digest of the image. It is for people: it does not stop at the first signature that satisfies the attestor.
func (v *Verifier) Examine(ctx context.Context, r world.SignatureRequest) (string, []Finding, error) {
	i, err := v.open(ctx, r)
	if err != nil {
		return "", nil, err
	}
	found, err := v.findings(ctx, i, r)
	return i.digest.String(), found, err
}

// findings returns the signatures of an image, or the statements of a type. If it returns an error, some are missing.
func (v *Verifier) findings(ctx context.Context, i *image, r world.SignatureRequest) ([]Finding, error) {
	if r.Format == Notary {
		return v.notaryFindings(ctx, i, r)
	}
	a, err := v.prepare(ctx, r.Attestor, r.Registry.Confined)
	if err != nil {
		return nil, err
	}
	all, err := i.all(ctx, r)
	out := []Finding{}
	for _, f := range all {
		switch {
		case r.Type == "":
			found := a.examine(ctx, f, i.subject())
			if err := f.signs(r.Format); err != nil {
				found.Accepted, found.Unknown, found.Reason = false, false, err.Error()
			}
			out = append(out, found)
		case f.statement != nil && f.statement.PredicateType == r.Type:
			out = append(out, a.examine(ctx, f, i.subject()))
		}
	}
	return out, err
}

// all returns the artefacts that the request selects. If it returns an error, some are missing.
func (i *image) all(ctx context.Context, r world.SignatureRequest) (out []*artefact, err error) {
	if r.Type != "" {
		return i.attestations(ctx, r.Type, r.Format == Bundle)
	}
	if r.Format != Bundle {
		if out, err = i.tagSignatures(ctx); err != nil {
			return nil, err
		}
	}
	referrers, err := i.signatureReferrers(ctx, r.Format == Bundle)
	if err != nil {
		return out, err
	}
	out = slices.Clip(out)
	for _, r := range referrers {
		read, err := i.referred(ctx, r)
		if err != nil {
			return out, err
		}
		out = append(out, read...)
	}
	return out, nil
}

// notaryFindings returns the signatures of Notary for the image, or for the referrers of the image.
func (v *Verifier) notaryFindings(ctx context.Context, i *image, r world.SignatureRequest) ([]Finding, error) {
	if v.options.Notary == nil {
		return nil, errNoNotary
	}
	kind := cmp.Or(r.Type, typeNotary)
	all, err := i.referrers(ctx)
	if err == nil {
		all, err = i.ofKind(ctx, all, kind)
	}
	if err != nil {
		return nil, err
	}
	out := []Finding{}
	for _, s := range all[:min(len(all), maxSignatures)] {
		f := Finding{Place: s.Digest.String(), Kind: "signature"}
		if r.Type != "" {
			f.Kind, f.Type = "attestation", r.Type
			_, err = v.notaryStatement(ctx, i, s, r)
		} else {
			err = v.examineNotary(ctx, i, s, r, &f)
		}
		f.Accepted = err == nil
		if err != nil {
			f.Reason, f.Unknown = err.Error(), !isUnverified(err)
		}
		out = append(out, f)
	}
	return out, nil
}

// examineNotary verifies one signature of Notary and reports its signer.
func (v *Verifier) examineNotary(ctx context.Context, i *image, s referrer, r world.SignatureRequest, f *Finding) error {
	if r.Attestor == nil || r.Attestor.Certificate == nil {
		return errNoCertificates
	}
	subject, err := i.descriptor(ctx)
	if err != nil {
		return err
	}
	if layer, blob, err := i.signatureOf(ctx, s, subject.Digest); err == nil {
		name, issuer := v.options.Notary.Signer(string(layer.MediaType), blob)
		if f.Issuer = issuer; name != "" {
			f.Subjects = []string{name}
		}
	}
	return v.oneNotary(ctx, i, subject, s, r)
}

// examine checks an artefact and returns the result as a Finding.
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
	if f.cert == nil {
		out.Key = f.keyName()
		if out.Accepted {
			out.Key = fingerprint(a.accepted)
		}
	}
	return out
}

// keyName returns the key that signed an artefact without a certificate, according to its log entry or the hint of a bundle.
func (f *artefact) keyName() string {
	for _, e := range f.entries {
		if name := fingerprint(e.PublicKey()); name != "" {
			return name
		}
	}
	if f.old != nil {
		if block, _ := pem.Decode(f.old.key); block != nil {
			return certificate.Fingerprint(block.Bytes)
		}
	}
	// The hint of cosign is the hash of the key; other clients use names of their own.
	if hash, err := base64.StdEncoding.DecodeString(f.hint); err == nil && len(hash) == sha256.Size {
		return "sha256:" + hex.EncodeToString(hash)
	}
	return f.hint
}

// fingerprint returns the hash of a public key in its usual encoding, or an empty text if key is not a public key.
func fingerprint(key any) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return ""
	}
	return certificate.Fingerprint(der)
}
