package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// sign signs the digests of a release and its provenance with an external key. The digests cover every other file.
//
//	SHA256SUMS.sig                     signature over SHA256SUMS, in base64 (`cosign verify-blob --key` and openssl read it)
//	ephor_⟨version⟩.provenance.json.dsse   the provenance in a signed DSSE envelope
func sign(args []string) error {
	f := flag.NewFlagSet("sign", flag.ContinueOnError)
	path := f.String("key", "", "private key, ECDSA P-256 or Ed25519 (PKCS #8, PEM)")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 || *path == "" {
		return errors.New("sign -key FILE ⟨folder of the release⟩")
	}
	key, err := readKey(*path)
	if err != nil {
		return err
	}
	dir := f.Arg(0)
	sums, err := os.ReadFile(filepath.Join(dir, sumsName))
	if err != nil {
		return err
	}
	signature, err := key.Sign(context.Background(), sums)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, sumsName+".sig"), []byte(base64.StdEncoding.EncodeToString(signature)+"\n"), 0o644); err != nil {
		return err
	}
	statements, err := filepath.Glob(filepath.Join(dir, "*.provenance.json"))
	if err != nil {
		return err
	}
	for _, s := range statements {
		content, err := os.ReadFile(s)
		if err != nil {
			return err
		}
		signer, err := dsse.NewEnvelopeSigner(key)
		if err != nil {
			return err
		}
		envelope, err := signer.SignPayload(context.Background(), "application/vnd.in-toto+json", content)
		if err != nil {
			return err
		}
		text, err := json.Marshal(envelope)
		if err != nil {
			return err
		}
		if err := os.WriteFile(s+".dsse", append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// privateKey signs bytes. It implements dsse.Signer.
type privateKey struct{ crypto.Signer }

// readKey reads a private key.
func readKey(path string) (*privateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s: no PEM block", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	switch k := parsed.(type) {
	case *ecdsa.PrivateKey:
		return &privateKey{k}, nil
	case ed25519.PrivateKey:
		return &privateKey{k}, nil
	}
	return nil, fmt.Errorf("%s: a key of type %T; ECDSA and Ed25519 keys are supported", path, parsed)
}

// Sign signs the bytes, or for ECDSA their SHA-256.
func (k *privateKey) Sign(_ context.Context, data []byte) ([]byte, error) {
	if _, ok := k.Signer.(ed25519.PrivateKey); ok {
		return k.Signer.Sign(rand.Reader, data, crypto.Hash(0))
	}
	sum := sha256.Sum256(data)
	return k.Signer.Sign(rand.Reader, sum[:], crypto.SHA256)
}

// KeyID returns the fingerprint of the public key, as verifiers of envelopes compute it themselves.
func (k *privateKey) KeyID() (string, error) { return dsse.SHA256KeyID(k.Public()) }
