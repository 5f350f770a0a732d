package sigverify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/world"
)

// maxBlobSignatures is the maximum number of signatures of one text.
const maxBlobSignatures = 32

// Blob implements world.Signatures. Signatures of texts have the same forms as those below the tag .sig, but contain no claim about an
// image.
func (v *Verifier) Blob(ctx context.Context, r world.BlobRequest) (signer string, err error) {
	a, err := v.prepare(ctx, r.Attestor, r.Confined)
	if err != nil {
		return "", err
	}
	if len(r.Signatures) > maxBlobSignatures {
		return "", unverified("it has %d signatures, but at most %d are read", len(r.Signatures), maxBlobSignatures)
	}
	var t tally
	for n := range r.Signatures {
		f := blobArtefact(r.Content, &r.Signatures[n])
		if err := a.check(ctx, f, subject{}); err != nil {
			t.add(err)
			continue
		}
		if a.accepted != nil {
			return fingerprint(a.accepted), nil
		}
		return strings.Join(subjects(f.cert), ", "), nil
	}
	switch {
	case t.outage != nil:
		return "", t.outage
	case t.genuine != "":
		return "", unverified("%s", t.genuine)
	case len(t.reasons) == 0:
		return "", unverified(textNone)
	}
	slices.Sort(t.reasons)
	return "", unverified("%s", strings.Join(slices.Compact(t.reasons), "; "))
}

// blobArtefact converts a signature of a text. If the signature cannot be read, the artefact is broken.
func blobArtefact(content []byte, s *world.BlobSignature) *artefact {
	f := &artefact{
		blob: true, signature: s.Signature, stamped: s.Signature,
		payload: func(context.Context) ([]byte, error) { return content, nil },
	}
	if s.Certificate != "" {
		certs, err := certificates(s.Certificate, maxChain)
		if err != nil {
			f.broken = fmt.Errorf("the certificate cannot be read: %w", err)
			return f
		}
		f.cert, f.chain = certs[0], certs[1:]
	}
	switch {
	case len(s.LogEntry) > maxAnnotations:
		f.broken = fmt.Errorf("the log entry is longer than %d bytes", maxAnnotations)
	case len(bytes.TrimSpace(s.LogEntry)) > 0:
		if err := f.logged(s.LogEntry); err != nil {
			f.broken = fmt.Errorf("the log entry cannot be read: %w", err)
		}
	}
	if f.broken == nil && len(s.Signature) == 0 {
		f.broken = errors.New("the signature is empty")
	}
	return f
}
