package manifest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	_ "crypto/sha512" // the algorithms sha384 and sha512
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
)

// Key is a public key.
type Key struct {
	public      crypto.PublicKey
	fingerprint string
}

// String returns the fingerprint: sha256: and the hash of the key in its usual encoding.
func (k *Key) String() string { return k.fingerprint }

var (
	errNoPEM     = errors.New("PEM decoding failed")
	errKeyKind   = errors.New("the key is neither ECDSA nor RSA nor Ed25519")
	errAlgorithm = errors.New("the algorithm is none of sha224, sha256, sha384 and sha512")
)

// ParseKey reads a public key, or the one in a certificate, from PEM.
func ParseKey(text string) (*Key, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, fmt.Errorf("failed to load public key from PEM: %w", errNoPEM)
	}
	public, err := parse(block)
	if err != nil {
		return nil, fmt.Errorf("failed to load public key from PEM: %w", err)
	}
	switch public.(type) {
	case *ecdsa.PublicKey, *rsa.PublicKey, ed25519.PublicKey:
	default:
		return nil, fmt.Errorf("failed to load public key from PEM: %w", errKeyKind)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("failed to load public key from PEM: %w", err)
	}
	sum := sha256.Sum256(der)
	return &Key{public: public, fingerprint: "sha256:" + hex.EncodeToString(sum[:])}, nil
}

func parse(block *pem.Block) (crypto.PublicKey, error) {
	switch block.Type {
	case "CERTIFICATE":
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return certificate.PublicKey, nil
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	}
	return x509.ParsePKIXPublicKey(block.Bytes)
}

// hashes are the algorithms of signatures; Ed25519 has its own.
var hashes = map[string]crypto.Hash{"": crypto.SHA256, "sha224": crypto.SHA224, "sha256": crypto.SHA256, "sha384": crypto.SHA384, "sha512": crypto.SHA512}

// SignedBy reports whether one of the signatures is the key's. The error is an unknown algorithm.
func (c *Claim) SignedBy(k *Key, algorithm string) (bool, error) {
	hash, ok := hashes[algorithm]
	if !ok {
		return false, errAlgorithm
	}
	h := hash.New()
	h.Write(c.message)
	sum := h.Sum(nil)
	for _, signature := range c.signatures {
		switch public := k.public.(type) {
		case *ecdsa.PublicKey:
			ok = ecdsa.VerifyASN1(public, sum, signature)
		case *rsa.PublicKey:
			ok = rsa.VerifyPKCS1v15(public, hash, sum, signature) == nil
		case ed25519.PublicKey:
			ok = ed25519.Verify(public, c.message, signature)
		default:
			ok = false
		}
		if ok {
			return true, nil
		}
	}
	return false, nil
}
