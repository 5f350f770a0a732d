package sigverify

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

// logTimes checks that a signature was logged, and returns the times that the logs prove.
func (a *attestor) logTimes(ctx context.Context, f *artefact, s *signer, payload []byte) ([]time.Time, error) {
	if a.Rekor.Ignore {
		return nil, nil
	}
	if f.bundle && len(f.entries) == 0 {
		return nil, refuse("not enough verified log entries from transparency log: 0 < 1")
	}
	known, err := a.logs(ctx)
	if err != nil {
		return nil, err
	}
	if f.old != nil {
		at, err := f.old.verify(known, f, s)
		if err != nil {
			return nil, refuse("cosign bundle verification failed: %s", err)
		}
		return []time.Time{at}, nil
	}
	entries := f.entries
	if len(entries) == 0 {
		if entries, err = a.search(ctx, f, s, payload); err != nil {
			return nil, err
		}
	}
	e := &entity{signer: s, entries: entries}
	switch {
	case f.envelope != nil && onlyHashes(entries):
		e.content = hashedContent(f, dsse.PAE(f.envelope.PayloadType, f.statement.payload))
	case f.envelope != nil:
		e.content = &bundle.Envelope{Envelope: f.envelope}
	case f.message != nil:
		e.content = f.message
	default:
		e.content = hashedContent(f, payload)
	}
	stamps, err := verify.VerifyTlogEntry(e, &logMaterial{logs: known, key: s.key}, 1, true)
	if err != nil {
		return nil, refuse("%s", err)
	}
	times := make([]time.Time, len(stamps))
	for n := range stamps {
		times[n] = stamps[n].Time
	}
	return times, nil
}

// onlyHashes reports whether all entries are from version 1 of the log and of the kind that contains a hash of the signed content. Clients
// may also log envelopes in this form.
func onlyHashes(entries []*tlog.Entry) bool {
	return !slices.ContainsFunc(entries, func(e *tlog.Entry) bool {
		_, _, ok := e.GetHashedRekordDigest()
		return !ok || e.IsRekorV2()
	})
}

// hashedContent returns a signature over a text in the form for log entries that contain a hash of the text.
func hashedContent(f *artefact, text []byte) *bundle.MessageSignature {
	hash, algorithm := crypto.SHA256, "sha256"
	if len(f.entries) > 0 {
		switch _, logged, _ := f.entries[0].GetHashedRekordDigest(); logged {
		case "sha384":
			hash, algorithm = crypto.SHA384, logged
		case "sha512":
			hash, algorithm = crypto.SHA512, logged
		}
	}
	h := hash.New()
	h.Write(text)
	return bundle.NewMessageSignature(h.Sum(nil), algorithm, f.signature)
}

// oldEntry is a log entry of the kind intoto 0.0.1, which cosign before 2.2 wrote for attestations. It contains the hash of the envelope and
// the key, but not the signature.
type oldEntry struct {
	logID, body, signed []byte
	index, at           int64
	hash                string // the hash of the envelope, in hex
	key                 []byte // the key, in PEM
}

func parseOldEntry(e *protorekor.TransparencyLogEntry) (*oldEntry, error) {
	var body struct {
		Spec struct {
			Content struct {
				Hash struct{ Algorithm, Value string } `json:"hash"`
			} `json:"content"`
			PublicKey []byte `json:"publicKey"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(e.CanonicalizedBody, &body); err != nil {
		return nil, err
	}
	if h := body.Spec.Content.Hash; h.Algorithm != "sha256" || h.Value == "" {
		return nil, errors.New("it has no sha256 of the envelope")
	}
	return &oldEntry{
		logID: e.GetLogId().GetKeyId(), body: e.CanonicalizedBody, signed: e.GetInclusionPromise().GetSignedEntryTimestamp(), index: e.LogIndex, at: e.IntegratedTime,
		hash: body.Spec.Content.Hash.Value, key: body.Spec.PublicKey,
	}, nil
}

// verify checks that a log signed the entry, and that the entry belongs to the artefact and its signer.
func (o *oldEntry) verify(known map[string]*root.TransparencyLog, f *artefact, s *signer) (time.Time, error) {
	id, at := hex.EncodeToString(o.logID), time.Unix(o.at, 0)
	log := known[id]
	if log == nil {
		return at, errors.New("rekor log public key not found for payload")
	}
	if log.ValidityPeriodStart.After(at) || !log.ValidityPeriodEnd.IsZero() && log.ValidityPeriodEnd.Before(at) {
		return at, errors.New("rekor log public key not valid at payload integrated time")
	}
	key, ok := log.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return at, fmt.Errorf("unsupported public key type: %T", log.PublicKey)
	}
	// The order of the fields and the missing spaces are those of canonical JSON.
	text := fmt.Sprintf(`{"body":%q,"integratedTime":%d,"logID":%q,"logIndex":%d}`, base64.StdEncoding.EncodeToString(o.body), o.at, id, o.index)
	if sum := sha256.Sum256([]byte(text)); !ecdsa.VerifyASN1(key, sum[:], o.signed) {
		return at, errors.New("unable to verify SET")
	}
	if sum := sha256.Sum256(f.stamped); hex.EncodeToString(sum[:]) != o.hash {
		return at, errors.New("the log entry is for a different envelope")
	}
	block, _ := pem.Decode(o.key)
	if block == nil {
		return at, errors.New("the log entry has no key")
	}
	if s.cert != nil {
		if !bytes.Equal(block.Bytes, s.cert.Raw) {
			return at, errors.New("transparency log certificate does not match")
		}
		return at, nil
	}
	logged, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil || !sameKey(s.key, logged) {
		return at, errors.New("transparency log certificate does not match")
	}
	return at, nil
}

// earliest sorts log entries by their time.
func earliest(entries []*protorekor.TransparencyLogEntry) {
	slices.SortStableFunc(entries, func(a, b *protorekor.TransparencyLogEntry) int { return int(a.IntegratedTime - b.IntegratedTime) })
}
