package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"maps"
	"strings"
)

// The reasons why a seal does not prove its claim.
var (
	// ErrMalformed is for a text that is not a seal.
	ErrMalformed = errors.New("it is not a seal")
	// ErrUnknownKey is for a seal whose key is not in the keyring: the key was lost, or never existed.
	ErrUnknownKey = errors.New("it was made with a key that is not known")
	// ErrForged is for a seal that a known key did not make for this claim.
	ErrForged = errors.New("it does not belong to this claim")
)

// version is the beginning of every seal.
const version = "v1"

// maxSeal bounds the text of a seal in bytes: the version, a key ID, a code and two dots.
const maxSeal = len(version) + 1 + 16 + 1 + 2*sha256.Size

// Keyring holds the key for new seals, and older keys whose seals are still valid. It is immutable.
type Keyring struct {
	current Key
	keys    map[string]Key
}

// NewKeyring returns the keyring with the current key and older ones.
func NewKeyring(current Key, older ...Key) (*Keyring, error) {
	r := &Keyring{current: current, keys: map[string]Key{current.id: current}}
	for _, k := range older {
		r.keys[k.id] = k
	}
	for _, k := range r.keys {
		if k.secret == nil {
			return nil, errors.New("a keyring holds only keys made by NewKey")
		}
	}
	return r, nil
}

// Current returns the key for new seals.
func (r *Keyring) Current() Key { return r.current }

// Len returns the number of keys.
func (r *Keyring) Len() int { return len(r.keys) }

// Same reports whether both hold the same keys, with the same current one. The ID of a key is derived from its bytes.
func (r *Keyring) Same(other *Keyring) bool {
	return r.current.id == other.current.id && maps.EqualFunc(r.keys, other.keys, func(a, b Key) bool { return a.id == b.id })
}

// Seal returns a proof, made with the current key, that these parts were claimed in this domain: "v1.⟨key ID⟩.⟨code in
// hex⟩".
func (r *Keyring) Seal(domain string, parts ...string) string {
	code := r.current.Sum(domain, parts...)
	return version + "." + r.current.id + "." + hex.EncodeToString(code[:])
}

// Check returns nil when a key of the ring made the text for exactly this domain and these parts; otherwise ErrMalformed,
// ErrUnknownKey or ErrForged.
func (r *Keyring) Check(text, domain string, parts ...string) error {
	id, code, err := parse(text)
	if err != nil {
		return err
	}
	key, known := r.keys[id]
	if !known {
		return ErrUnknownKey
	}
	want := key.Sum(domain, parts...)
	if !hmac.Equal(want[:], code) {
		return ErrForged
	}
	return nil
}

// IsCurrent reports whether the text names the current key and needs no renewal. It does not verify the seal.
func (r *Keyring) IsCurrent(text string) bool {
	id, _, err := parse(text)
	return err == nil && id == r.current.id
}

func parse(text string) (id string, code []byte, err error) {
	if len(text) != maxSeal {
		return "", nil, ErrMalformed
	}
	v, rest, _ := strings.Cut(text, ".")
	id, digits, ok := strings.Cut(rest, ".")
	if v != version || !ok || len(id) != 16 || strings.ToLower(digits) != digits {
		return "", nil, ErrMalformed
	}
	if code, err = hex.DecodeString(digits); err != nil {
		return "", nil, ErrMalformed
	}
	return id, code, nil
}

// sum computes the code. Each part is preceded by its length, so that ("ab", "c") and ("a", "bc") differ.
func sum(secret []byte, domain string, parts []string) []byte {
	h := hmac.New(sha256.New, secret)
	text := appendPart(nil, domain)
	for _, p := range parts {
		text = appendPart(text, p)
	}
	h.Write(text)
	return h.Sum(nil)
}

func appendPart(text []byte, part string) []byte {
	return append(binary.BigEndian.AppendUint64(text, uint64(len(part))), part...)
}
