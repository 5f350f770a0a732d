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
)

// Bounds of what a requester may make us read.
const (
	maxMessage    = 2 << 20 // bytes of a message, decompressed: more than an object can hold
	maxSignatures = 32
	maxFiles      = 64 // in an archive
)

// Why a claim cannot be read.
var (
	ErrNoSignature = errors.New("no signature found")
	errTooLarge    = fmt.Errorf("the message is larger than %d bytes", maxMessage)
)

// Claim is what the annotations of an object say: this was signed.
type Claim struct {
	message    []byte
	signatures [][]byte
}

// Read reads the annotations of the domain: message, and signature, signature_1, signature_2 …. An object without them is
// ErrNoSignature. Nothing is verified.
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
	packed, err := base64.StdEncoding.DecodeString(message)
	if err != nil {
		return nil, fmt.Errorf("the message is no base64: %w", err)
	}
	c := &Claim{}
	if c.message, err = unzip(packed); err != nil {
		return nil, fmt.Errorf("the message cannot be decompressed: %w", err)
	}
	for i := range maxSignatures {
		name := "signature"
		if i > 0 {
			name += "_" + strconv.Itoa(i)
		}
		s := text(name)
		if s == "" {
			break
		}
		signature, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return nil, fmt.Errorf("the annotation %s/%s is no base64: %w", domain, name, err)
		}
		c.signatures = append(c.signatures, signature)
	}
	return c, nil
}

// zipped recognizes compressed data by its first bytes.
func zipped(b []byte) bool { return len(b) > 2 && b[0] == 0x1f && b[1] == 0x8b }

func unzip(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return readAll(r)
}

func readAll(r io.Reader) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(r, maxMessage+1))
	if err != nil {
		return nil, err
	}
	if len(out) > maxMessage {
		return nil, errTooLarge
	}
	return out, nil
}

// files are the texts that were signed: the message itself, or the files of a compressed archive.
func (c *Claim) files() ([][]byte, error) {
	if !zipped(c.message) {
		return [][]byte{c.message}, nil
	}
	archive, err := unzip(c.message)
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
