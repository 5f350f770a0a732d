package keys

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"
)

// Limits of keys.
const (
	maxPEM    = 64 << 10
	maxParsed = 1024
	minRSA    = 2048 // in bits
	maxRSA    = 8192
)

// parsed caches keys by their texts, so that each is parsed once.
type parsed struct {
	mu   sync.RWMutex
	keys map[string]crypto.PublicKey
}

// key returns the first key in a text.
func (p *parsed) key(text string) (crypto.PublicKey, error) {
	p.mu.RLock()
	key, known := p.keys[text]
	p.mu.RUnlock()
	if known {
		return key, nil
	}
	key, err := parse([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("pem to public key: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys == nil {
		p.keys = map[string]crypto.PublicKey{}
	}
	if len(p.keys) >= maxParsed {
		for other := range p.keys { // removes any entry
			delete(p.keys, other)
			break
		}
	}
	p.keys[text] = key
	return key, nil
}

func parse(text []byte) (crypto.PublicKey, error) {
	if len(text) > maxPEM {
		return nil, fmt.Errorf("the text is longer than %d bytes", maxPEM)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("PEM decoding failed")
	}
	var key any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	default:
		return nil, fmt.Errorf("unknown Public key PEM file type: %v. Are you passing the correct public key?", block.Type)
	}
	if err != nil {
		return nil, err
	}
	return usable(key)
}

// usable returns the key if signatures can be verified with it.
func usable(key any) (crypto.PublicKey, error) {
	switch k := key.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return k, nil
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSA || bits > maxRSA {
			return nil, fmt.Errorf("an RSA key of %d bits is not accepted: %d to %d are", bits, minRSA, maxRSA)
		}
		return k, nil
	}
	return nil, fmt.Errorf("keys of type %T are not supported", key)
}
