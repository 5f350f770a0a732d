package manifest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"

	"ephor.invalid/ephor/internal/bounded"
)

// Bounds of the data that a requester controls.
const (
	maxMessage    = 2 << 20 // bytes of a message after decompression: more than an object can hold
	maxSignatures = 32
	maxFiles      = 64 // in an archive
	// maxCertificate bounds a certificate with its chain, in PEM.
	maxCertificate = 64 << 10
)

// The reasons why a claim cannot be read.
var (
	ErrNoSignature = errors.New("no signature found")
	errTooLarge    = fmt.Errorf("the message is larger than %d bytes", maxMessage)
)

// Claim is the signed content in the annotations of an object.
type Claim struct {
	// Message is the signed text.
	Message    []byte
	Signatures []Signature
}

// Signature is one signature, with the certificate of the signer in PEM and the entry of a transparency log in JSON, if present.
type Signature struct {
	Signature   []byte
	Certificate string
	LogEntry    []byte
}

// Read reads the annotations of the domain: message, and signature, certificate and bundle, signature_1, certificate_1 and bundle_1 …. It
// returns ErrNoSignature for an object without them. It verifies nothing.
func Read(object map[string]any, domain string) (*Claim, error) {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	text := func(name string) string {
		s, _ := annotations[domain+"/"+name].(string)
		return s
	}
	message := text("message")
	if message == "" || text("signature") == "" {
		return nil, ErrNoSignature
	}
	c := &Claim{}
	var err error
	if c.Message, err = unpack(message, true); err != nil {
		return nil, fmt.Errorf("the message %w", err)
	}
	for i := range maxSignatures {
		suffix := ""
		if i > 0 {
			suffix = "_" + strconv.Itoa(i)
		}
		encoded := text("signature" + suffix)
		if encoded == "" {
			break
		}
		one := Signature{}
		if one.Signature, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, fmt.Errorf("the annotation %s/signature%s is no base64: %w", domain, suffix, err)
		}
		certificate, err := unpack(text("certificate"+suffix), false)
		if err != nil {
			return nil, fmt.Errorf("the annotation %s/certificate%s %w", domain, suffix, err)
		}
		if one.Certificate = string(certificate); len(certificate) > maxCertificate {
			return nil, fmt.Errorf("the annotation %s/certificate%s holds more than %d bytes", domain, suffix, maxCertificate)
		}
		if one.LogEntry, err = unpack(text("bundle"+suffix), false); err != nil {
			return nil, fmt.Errorf("the annotation %s/bundle%s %w", domain, suffix, err)
		}
		c.Signatures = append(c.Signatures, one)
	}
	return c, nil
}

// unpack decodes base64 and decompresses the result. Everything but messages may also be uncompressed.
func unpack(text string, always bool) ([]byte, error) {
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("is no base64: %w", err)
	}
	if !always && !zipped(packed) {
		return packed, nil
	}
	out, err := unzip(packed)
	if err != nil {
		return nil, fmt.Errorf("cannot be decompressed: %w", err)
	}
	return out, nil
}

// zipped reports whether data are compressed, by their first bytes.
func zipped(b []byte) bool { return len(b) > 2 && b[0] == 0x1f && b[1] == 0x8b }

func unzip(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return readAll(r)
}

func readAll(r io.Reader) ([]byte, error) {
	out, err := bounded.Read(r, maxMessage)
	if bounded.Exceeded(err) {
		return nil, errTooLarge
	}
	return out, err
}

// files returns the signed texts: the message itself, or the files of a compressed archive.
func (c *Claim) files() ([][]byte, error) {
	if !zipped(c.Message) {
		return [][]byte{c.Message}, nil
	}
	archive, err := unzip(c.Message)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		switch {
		case err == io.EOF && len(out) == 0:
			return nil, errors.New("the archive holds no file")
		case err == io.EOF:
			return out, nil
		case err != nil:
			return nil, err
		case len(out) == maxFiles:
			return nil, fmt.Errorf("the archive holds more than %d files", maxFiles)
		case h.Typeflag != tar.TypeReg:
			continue
		}
		text, err := readAll(r)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
}
