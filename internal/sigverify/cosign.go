package sigverify

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
)

// Annotations of the layers that cosign writes below the tags .sig and .att.
const (
	noteSignature   = "dev.cosignproject.cosign/signature"
	noteCertificate = "dev.sigstore.cosign/certificate"
	noteChain       = "dev.sigstore.cosign/chain"
	noteBundle      = "dev.sigstore.cosign/bundle"
	noteTimestamp   = "dev.sigstore.cosign/rfc3161timestamp"
)

// tagSignatures returns the signatures below the image's tag .sig.
func (i *image) tagSignatures(ctx context.Context) ([]*artefact, error) {
	return i.signed.Get(ctx, func(ctx context.Context) ([]*artefact, error) {
		tag := i.tag(".sig")
		m, err := i.manifest(ctx, tag)
		if err != nil || m == nil {
			return nil, err
		}
		return i.simple(tag, m)
	})
}

// tagAttestations returns the attestations below the image's tag .att.
func (i *image) tagAttestations(ctx context.Context) ([]*artefact, error) {
	return i.attested.Get(ctx, func(ctx context.Context) ([]*artefact, error) {
		tag := i.tag(".att")
		m, err := i.manifest(ctx, tag)
		if err != nil || m == nil {
			return nil, err
		}
		if err := i.counts.add(tag, len(m.Layers)); err != nil {
			return nil, err
		}
		return each(ctx, len(m.Layers), func(ctx context.Context, n int) (*artefact, error) {
			a := &artefact{place: fmt.Sprintf("%s, layer %d", tag, n)}
			blob, err := i.blob(ctx, m.Layers[n], maxStatement)
			if err != nil && !isUnverified(err) {
				return nil, err
			}
			if err == nil {
				err = a.attestation(m.Layers[n], blob)
			}
			a.broken = err
			return a, nil
		})
	})
}

func (i *image) tag(suffix string) string {
	return i.prefix + i.digest.Algorithm + "-" + i.digest.Hex + suffix
}

// simple returns the signatures in the layers of a manifest.
func (i *image) simple(place string, m *v1.Manifest) ([]*artefact, error) {
	if err := i.counts.add(place, len(m.Layers)); err != nil {
		return nil, err
	}
	out := make([]*artefact, len(m.Layers))
	for n, layer := range m.Layers {
		a := &artefact{place: fmt.Sprintf("%s, layer %d", place, n)}
		a.payload = func(ctx context.Context) ([]byte, error) { return i.claim(ctx, layer) }
		if a.signature, a.broken = base64.StdEncoding.DecodeString(layer.Annotations[noteSignature]); a.broken == nil {
			a.stamped = a.signature
			a.broken = a.annotated(layer)
		}
		out[n] = a
	}
	return out, nil
}

// claim reads the text that a layer signs. Without annotations, the repository and the digest determine the text completely. Then the layer's
// digest proves it, and nothing needs to be read.
func (i *image) claim(ctx context.Context, layer v1.Descriptor) ([]byte, error) {
	if layer.Digest.Algorithm == "sha256" {
		text := []byte(`{"critical":{"identity":{"docker-reference":"` + i.repository.Name() + `"},"image":{"docker-manifest-digest":"` + i.digest.String() +
			`"},"type":"cosign container image signature"},"optional":null}`)
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) == layer.Digest.Hex {
			return text, nil
		}
	}
	return i.blob(ctx, layer, maxPayload)
}

// attestation parses an attestation of cosign.
func (a *artefact) attestation(layer v1.Descriptor, blob []byte) (err error) {
	a.envelope = &dsse.Envelope{}
	if err := json.Unmarshal(blob, a.envelope); err != nil {
		return fmt.Errorf("the envelope cannot be read: %w", err)
	}
	var payload []byte
	if payload, a.signature, err = single(a.envelope); err != nil {
		return err
	}
	a.stamped = blob
	if a.statement, err = parseStatement(a.envelope.PayloadType, payload); err != nil {
		return err
	}
	return a.annotated(layer)
}

// annotated reads the parts in the annotations of a layer: certificate, chain, log entry and timestamp.
func (a *artefact) annotated(layer v1.Descriptor) (err error) {
	size := 0
	for key, value := range layer.Annotations {
		size += len(key) + len(value)
	}
	if size > maxAnnotations {
		return fmt.Errorf("the annotations are longer than %d bytes", maxAnnotations)
	}
	if text := layer.Annotations[noteCertificate]; text != "" {
		certs, err := certificates(text, 1)
		if err != nil {
			return fmt.Errorf("the certificate cannot be read: %w", err)
		}
		a.cert = certs[0]
	}
	if text := layer.Annotations[noteChain]; text != "" {
		if a.chain, err = certificates(text, maxChain); err != nil {
			return fmt.Errorf("the certificate chain cannot be read: %w", err)
		}
	}
	if text := layer.Annotations[noteTimestamp]; text != "" {
		var stamp struct{ SignedRFC3161Timestamp []byte }
		if err := json.Unmarshal([]byte(text), &stamp); err != nil {
			return fmt.Errorf("the timestamp cannot be read: %w", err)
		}
		a.stamps = [][]byte{stamp.SignedRFC3161Timestamp}
	}
	if text := layer.Annotations[noteBundle]; text != "" {
		if err := a.logged([]byte(text)); err != nil {
			return fmt.Errorf("the log entry cannot be read: %w", err)
		}
	}
	return nil
}

// logged parses the log entry that cosign stores beside a signature.
func (a *artefact) logged(text []byte) error {
	var in struct {
		SignedEntryTimestamp []byte
		Payload              struct {
			Body           []byte `json:"body"`
			IntegratedTime int64  `json:"integratedTime"`
			LogIndex       int64  `json:"logIndex"`
			LogID          string `json:"logID"`
		}
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	id, err := hex.DecodeString(in.Payload.LogID)
	if err != nil {
		return err
	}
	return a.addEntry(&protorekor.TransparencyLogEntry{
		LogIndex: in.Payload.LogIndex, LogId: &protocommon.LogId{KeyId: id}, IntegratedTime: in.Payload.IntegratedTime,
		InclusionPromise: &protorekor.InclusionPromise{SignedEntryTimestamp: in.SignedEntryTimestamp}, CanonicalizedBody: in.Payload.Body,
	})
}

// addEntry adds an entry of a log of version 1. The body of the entry states its kind.
func (a *artefact) addEntry(e *protorekor.TransparencyLogEntry) error {
	var kind struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
	}
	if err := json.Unmarshal(e.CanonicalizedBody, &kind); err != nil {
		return err
	}
	if len(e.GetInclusionPromise().GetSignedEntryTimestamp()) == 0 {
		return errors.New("it is not signed")
	}
	if kind.Kind == "intoto" && kind.APIVersion == "0.0.1" {
		old, err := parseOldEntry(e)
		a.old = old
		return err
	}
	e.KindVersion = &protorekor.KindVersion{Kind: kind.Kind, Version: kind.APIVersion}
	entry, err := parseEntry(e)
	if err != nil {
		return err
	}
	a.entries = append(a.entries, entry)
	return nil
}
