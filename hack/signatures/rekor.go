package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-openapi/runtime"
	"github.com/sigstore/rekor/pkg/generated/models"
	"github.com/sigstore/rekor/pkg/types"
	_ "github.com/sigstore/rekor/pkg/types/dsse/v0.0.1"
	_ "github.com/sigstore/rekor/pkg/types/hashedrekord/v0.0.1"
	_ "github.com/sigstore/rekor/pkg/types/intoto/v0.0.1"
	_ "github.com/sigstore/rekor/pkg/types/intoto/v0.0.2"
	"github.com/sigstore/rekor/pkg/util"
	"github.com/sigstore/sigstore/pkg/signature"
)

// transparencyLog simulates a Rekor v1 server: it canonicalises, numbers and signs entries, and answers searches for
// them. Each entry is in a separate tree, with one leaf.
type transparencyLog struct {
	key    *ecdsa.PrivateKey
	signer signature.Signer
	id     string // of the key, in hexadecimal

	mu      sync.Mutex
	entries map[string]map[string]any // by their UUID
}

func newTransparencyLog() (*transparencyLog, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	id, err := keyID(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	signer, err := signature.LoadDefaultSigner(key)
	return &transparencyLog{key: key, signer: signer, id: hex.EncodeToString(id), entries: map[string]map[string]any{}}, err
}

func (l *transparencyLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(v)
	}
	fail := func(status int, err error) { answer(status, map[string]any{"code": status, "message": err.Error()}) }
	l.mu.Lock()
	defer l.mu.Unlock()
	switch path := strings.TrimPrefix(r.URL.Path, "/api/v1/log"); {
	case path == "/publicKey":
		b, err := publicPEM(&l.key.PublicKey)
		if err != nil {
			fail(500, err)
			return
		}
		w.Write(b)
	case path == "/entries" && r.Method == http.MethodPost:
		proposed, err := models.UnmarshalProposedEntry(io.LimitReader(r.Body, 8<<20), runtime.JSONConsumer())
		if err != nil {
			fail(400, err)
			return
		}
		uuid, entry, err := l.append(r.Context(), proposed)
		if err != nil {
			fail(400, err)
			return
		}
		w.Header().Set("Location", "/api/v1/log/entries/"+uuid)
		w.Header().Set("ETag", uuid)
		answer(201, map[string]any{uuid: entry})
	case path == "/entries/retrieve":
		var q struct {
			Entries []json.RawMessage `json:"entries"`
			UUIDs   []string          `json:"entryUUIDs"`
		}
		if err := json.NewDecoder(io.LimitReader(r.Body, 8<<20)).Decode(&q); err != nil {
			fail(400, err)
			return
		}
		found := []any{}
		for _, raw := range q.Entries {
			proposed, err := models.UnmarshalProposedEntry(strings.NewReader(string(raw)), runtime.JSONConsumer())
			if err != nil {
				fail(400, err)
				return
			}
			body, err := canonical(r.Context(), proposed)
			if err != nil {
				fail(400, err)
				return
			}
			q.UUIDs = append(q.UUIDs, leafHash(body))
		}
		for _, id := range q.UUIDs {
			if e, ok := l.entries[id]; ok {
				found = append(found, map[string]any{id: e})
			}
		}
		answer(200, found)
	case strings.HasPrefix(path, "/entries/"):
		id := strings.TrimPrefix(path, "/entries/")
		e, ok := l.entries[id]
		if !ok {
			fail(404, errors.New("no such entry"))
			return
		}
		answer(200, map[string]any{id: e})
	default:
		fail(404, fmt.Errorf("no such path: %s", r.URL.Path))
	}
}

func canonical(ctx context.Context, proposed models.ProposedEntry) ([]byte, error) {
	entry, err := types.CreateVersionedEntry(proposed)
	if err != nil {
		return nil, err
	}
	return types.CanonicalizeEntry(ctx, entry)
}

// leafHash returns the hash of a leaf of a Merkle tree (RFC 6962, 2.1), which is also the hash of a tree with only this
// leaf.
func leafHash(body []byte) string {
	sum := sha256.Sum256(append([]byte{0}, body...))
	return hex.EncodeToString(sum[:])
}

func (l *transparencyLog) append(ctx context.Context, proposed models.ProposedEntry) (string, map[string]any, error) {
	body, err := canonical(ctx, proposed)
	if err != nil {
		return "", nil, err
	}
	uuid := leafHash(body)
	if e, ok := l.entries[uuid]; ok {
		return uuid, e, nil
	}
	index, now := len(l.entries)+1000, time.Now().Unix()
	encoded := base64.StdEncoding.EncodeToString(body)
	// Maps have sorted keys, which is the canonical form of what is signed.
	signed, err := json.Marshal(map[string]any{"body": encoded, "integratedTime": now, "logIndex": index, "logID": l.id})
	if err != nil {
		return "", nil, err
	}
	digest := sha256.Sum256(signed)
	set, err := ecdsa.SignASN1(rand.Reader, l.key, digest[:])
	if err != nil {
		return "", nil, err
	}
	root, err := hex.DecodeString(uuid)
	if err != nil {
		return "", nil, err
	}
	checkpoint, err := util.CreateAndSignCheckpoint(ctx, "rekor.ephor.test", 1, 1, root, l.signer)
	if err != nil {
		return "", nil, err
	}
	entry := map[string]any{
		"body": encoded, "integratedTime": now, "logIndex": index, "logID": l.id,
		"verification": map[string]any{
			"signedEntryTimestamp": base64.StdEncoding.EncodeToString(set),
			"inclusionProof":       map[string]any{"checkpoint": string(checkpoint), "hashes": []string{}, "logIndex": 0, "rootHash": uuid, "treeSize": 1},
		},
	}
	l.entries[uuid] = entry
	return uuid, entry, nil
}
