package certificate

import (
	"crypto/sha256"
	"encoding/hex"
)

// Fingerprint identifies a key or a certificate by the hash of its DER encoding.
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return "sha256:" + hex.EncodeToString(sum[:])
}
