package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const sumsName = "SHA256SUMS"

// sums writes the digests of all files, in the form that sha256sum reads.
func (r *release) sums() error {
	entries, err := os.ReadDir(r.output)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, e := range entries {
		sum, err := r.sum(e.Name())
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, e.Name())
	}
	return r.put(sumsName, out.Bytes(), 0o644)
}

// sum returns the SHA-256 of a file of the release, in hex.
func (r *release) sum(name string) (string, error) {
	content, err := os.ReadFile(filepath.Join(r.output, name))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}

// canonical returns a message in JSON whose bytes do not vary: protojson adds blanks at random.
func canonical(m proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	out, err := json.MarshalIndent(v, "", "  ")
	return append(out, '\n'), err
}
