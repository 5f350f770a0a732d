package sigverify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/tlog"

	"ephor.invalid/ephor/internal/bounded"
	"ephor.invalid/ephor/internal/fetch"
)

const (
	publicRekor   = "https://rekor.sigstore.dev"
	searchTimeout = 10 * time.Second
	notLogged     = "signature not found in transparency log"
)

// search queries the transparency log for the entry of a signature that was stored without one. The response is verified like any other
// entry.
func (a *attestor) search(ctx context.Context, f *artefact, s *signer, payload []byte) ([]*tlog.Entry, error) {
	address, err := url.Parse(strings.TrimRight(cmp.Or(a.Rekor.URL, publicRekor), "/") + "/api/v1/log/entries/retrieve")
	if err != nil {
		return nil, err
	}
	if permit := a.verifier.options.Permit; a.confined && permit != nil {
		if err := permit(address); err != nil {
			return nil, err
		}
	}
	asked, err := proposal(f, s, payload)
	if err != nil {
		return nil, err
	}
	text, err := a.verifier.post(ctx, address.String(), asked)
	if err != nil {
		return nil, fmt.Errorf("searching the transparency log: %w", err)
	}
	found, err := parseFound(text)
	if err != nil {
		return nil, fmt.Errorf("searching the transparency log: the answer cannot be read: %w", err)
	}
	if len(found) == 0 {
		return nil, refuse(notLogged)
	}
	earliest(found)
	entry, err := parseEntry(found[0])
	if err != nil {
		return nil, fmt.Errorf("searching the transparency log: the answer cannot be read: %w", err)
	}
	return []*tlog.Entry{entry}, nil
}

// post sends a query to a log.
func (v *Verifier) post(ctx context.Context, address string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "ephor")
	answer, text, err := fetch.Do(fetch.Client(v.options.HTTP), r, maxLogAnswer)
	switch {
	case bounded.Exceeded(err):
		return nil, fmt.Errorf("the log answers with %w", err)
	case err != nil:
		return nil, err
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the log answers %s", answer.Status)
	}
	return text, nil
}

// proposal returns the entry that a log would have for the signature.
func proposal(f *artefact, s *signer, payload []byte) ([]byte, error) {
	block := &pem.Block{Type: "CERTIFICATE"}
	if s.cert != nil {
		block.Bytes = s.cert.Raw
	} else {
		encoded, err := x509.MarshalPKIXPublicKey(s.key)
		if err != nil {
			return nil, err
		}
		block = &pem.Block{Type: "PUBLIC KEY", Bytes: encoded}
	}
	key := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(block))
	type object = map[string]any
	var entry object
	if f.envelope != nil {
		envelope, err := json.Marshal(f.envelope)
		if err != nil {
			return nil, err
		}
		entry = object{"kind": "dsse", "apiVersion": "0.0.1", "spec": object{"proposedContent": object{"envelope": string(envelope), "verifiers": []string{key}}}}
	} else {
		sum := sha256.Sum256(payload)
		entry = object{"kind": "hashedrekord", "apiVersion": "0.0.1", "spec": object{
			"signature": object{"content": base64.StdEncoding.EncodeToString(f.signature), "publicKey": object{"content": key}},
			"data":      object{"hash": object{"algorithm": "sha256", "value": hex.EncodeToString(sum[:])}},
		}}
	}
	return json.Marshal(object{"entries": []object{entry}})
}

// parseFound parses the entries in the response of a log. It omits those without an inclusion proof and a signed time.
func parseFound(text []byte) (out []*protorekor.TransparencyLogEntry, err error) {
	var in []map[string]struct {
		Body           []byte `json:"body"`
		IntegratedTime int64  `json:"integratedTime"`
		LogID          string `json:"logID"`
		LogIndex       int64  `json:"logIndex"`
		Verification   struct {
			InclusionProof *struct {
				Checkpoint string   `json:"checkpoint"`
				Hashes     []string `json:"hashes"`
				LogIndex   int64    `json:"logIndex"`
				RootHash   string   `json:"rootHash"`
				TreeSize   int64    `json:"treeSize"`
			} `json:"inclusionProof"`
			SignedEntryTimestamp []byte `json:"signedEntryTimestamp"`
		} `json:"verification"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	for _, entries := range in {
		for _, e := range entries {
			proof := e.Verification.InclusionProof
			if proof == nil || len(e.Verification.SignedEntryTimestamp) == 0 {
				continue
			}
			var kind struct{ Kind, APIVersion string }
			if err := json.Unmarshal(e.Body, &kind); err != nil {
				return nil, err
			}
			id, err := hex.DecodeString(e.LogID)
			if err != nil {
				return nil, err
			}
			hash, err := hex.DecodeString(proof.RootHash)
			if err != nil {
				return nil, err
			}
			hashes := make([][]byte, len(proof.Hashes))
			for n := range hashes {
				if hashes[n], err = hex.DecodeString(proof.Hashes[n]); err != nil {
					return nil, err
				}
			}
			out = append(out, &protorekor.TransparencyLogEntry{
				LogIndex: e.LogIndex, LogId: &protocommon.LogId{KeyId: id}, KindVersion: &protorekor.KindVersion{Kind: kind.Kind, Version: kind.APIVersion},
				IntegratedTime: e.IntegratedTime, InclusionPromise: &protorekor.InclusionPromise{SignedEntryTimestamp: e.Verification.SignedEntryTimestamp},
				InclusionProof: &protorekor.InclusionProof{
					LogIndex: proof.LogIndex, RootHash: hash, TreeSize: proof.TreeSize, Hashes: hashes, Checkpoint: &protorekor.Checkpoint{Envelope: proof.Checkpoint},
				},
				CanonicalizedBody: e.Body,
			})
		}
	}
	return out, nil
}
