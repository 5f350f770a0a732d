package notary

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/notaryproject/notation-core-go/signature"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"ephor.invalid/ephor/internal/sigverify"
)

// repositoryOfFiles is the repository in the names of artefacts that are not in a registry. No trust policy names it.
const repositoryOfFiles = "localhost/file"

// Open reads a JWS or COSE envelope from a file and returns what it claims to sign. It does not verify anything.
func Open(envelope []byte) (out sigverify.NotaryArtefact, err error) {
	defer func() {
		if p := recover(); p != nil { // the libraries parse untrusted data
			err = fmt.Errorf("the envelope cannot be read: panic: %v", p)
		}
	}()
	out = sigverify.NotaryArtefact{Repository: repositoryOfFiles, MediaType: mediaTypeCOSE, Envelope: envelope}
	if bytes.HasPrefix(bytes.TrimSpace(envelope), []byte("{")) {
		out.MediaType = mediaTypeJWS
	}
	if err := readable(out); err != nil {
		return out, err
	}
	parsed, err := signature.ParseEnvelope(out.MediaType, envelope)
	if err != nil {
		return out, fmt.Errorf("the envelope cannot be read: %w", err)
	}
	content, err := parsed.Content()
	if err != nil {
		return out, fmt.Errorf("the envelope cannot be read: %w", err)
	}
	var payload struct {
		Target ocispec.Descriptor `json:"targetArtifact"`
	}
	if err := json.Unmarshal(content.Payload.Content, &payload); err != nil {
		return out, fmt.Errorf("the payload of the envelope cannot be read: %w", err)
	}
	if payload.Target.Digest == "" {
		return out, errors.New("the payload of the envelope names no artifact")
	}
	hash, err := v1.NewHash(payload.Target.Digest.String())
	if err != nil {
		return out, fmt.Errorf("the digest in the payload of the envelope: %w", err)
	}
	out.Subject = v1.Descriptor{MediaType: types.MediaType(payload.Target.MediaType), Digest: hash, Size: payload.Target.Size}
	return out, nil
}
