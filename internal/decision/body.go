package decision

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Body is a JSON text that is stored once, however many records have it.
type Body struct {
	// The beginning of the SHA-256 of the text.
	Digest string `json:"digest" proto:"1,hex"`
	// The text, compressed by DEFLATE with the dictionary of the schema; absent if an earlier record of the file has the text.
	Deflated []byte `json:"deflated,omitempty" proto:"2"`
}

// dictionary has the words of Kubernetes with which texts are compressed. It is a part of the schema: another dictionary needs another field.
//
//go:embed dictionary.txt
var dictionary []byte

// level takes a quarter less time than the default for texts that are half a percent longer.
const level = 5

// deflaters has compressors, whose tables have 800 kB. A record with its request takes 4.1 × the time without the pool
// (BenchmarkRecordOfRequest).
var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriterDict(io.Discard, level, dictionary)
	if err != nil {
		panic(err) // the level is valid
	}
	return w
}}

// newBody returns the Body of a text.
func newBody(text string) (*Body, error) {
	sum := sha256.Sum256([]byte(text))
	var out bytes.Buffer
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	w.Reset(&out)
	if _, err := io.WriteString(w, text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return &Body{Digest: hex.EncodeToString(sum[:16]), Deflated: bytes.Clone(out.Bytes())}, nil
}

// ErrNoText is the error for a text that is in an earlier record, if that record was not read.
var ErrNoText = errors.New("the record refers to an earlier one that is not in the file")

// maxText is the longest text of a Body: a review has two objects, of 3 MB each at most.
const maxText = 8 << 20

// inflaters has decompressors, whose windows have 40 kB. Reading a text of 7 kB takes 1.6 × the time without the pool (BenchmarkBody).
var inflaters = sync.Pool{New: func() any { return flate.NewReaderDict(bytes.NewReader(nil), dictionary) }}

// appendText appends the text to dst.
func (b *Body) appendText(dst []byte) ([]byte, error) {
	if len(b.Deflated) == 0 {
		return nil, ErrNoText
	}
	r := inflaters.Get().(io.ReadCloser)
	defer inflaters.Put(r)
	if err := r.(flate.Resetter).Reset(bytes.NewReader(b.Deflated), dictionary); err != nil {
		return nil, err
	}
	began := len(dst)
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst)-began > maxText:
			return nil, fmt.Errorf("the text is longer than %d bytes", maxText)
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return nil, fmt.Errorf("the text of a recorded request: %w", err)
		}
	}
}
