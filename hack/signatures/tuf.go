package main

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/theupdateframework/go-tuf/v2/metadata"
)

// writeTUF writes a repository of updates with the trusted root, and with its parts for older clients. One key, which is
// discarded, signs all roles.
func (w *workshop) writeTUF(dir string, trustedRoot []byte) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	signer, err := signature.LoadSigner(private, crypto.Hash(0))
	if err != nil {
		return err
	}
	key, err := metadata.KeyFromPublicKey(public)
	if err != nil {
		return err
	}
	expires := time.Now().Add(tenYears).UTC().Truncate(time.Second)
	root, targets, snapshot, timestamp := metadata.Root(expires), metadata.Targets(expires), metadata.Snapshot(expires), metadata.Timestamp(expires)
	for _, role := range []string{metadata.ROOT, metadata.TARGETS, metadata.SNAPSHOT, metadata.TIMESTAMP} {
		if err := root.Signed.AddKey(key, role); err != nil {
			return err
		}
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Join(dir, "targets"), 0o755)); err != nil {
		return err
	}
	rekor, err1 := publicPEM(&w.log.key.PublicKey)
	ct, err2 := publicPEM(&w.authority.log.PublicKey)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for _, t := range []struct {
		name, usage string
		body        []byte
	}{
		{"trusted_root.json", "", trustedRoot}, {"fulcio_v1.crt.pem", "Fulcio", certificatePEM(w.authority.root)},
		{"fulcio_intermediate_v1.crt.pem", "Fulcio", certificatePEM(w.authority.intermediate)}, {"rekor.pub", "Rekor", rekor}, {"ctfe.pub", "CTFE", ct},
	} {
		file, err := metadata.TargetFile().FromBytes(t.name, t.body, "sha256")
		if err != nil {
			return err
		}
		if t.usage != "" {
			custom := json.RawMessage(fmt.Sprintf(`{"sigstore":{"status":"Active","uri":"","usage":%q}}`, t.usage))
			file.Custom = &custom
		}
		targets.Signed.Targets[t.name] = file
		if err := os.WriteFile(filepath.Join(dir, "targets", fmt.Sprintf("%x.%s", []byte(file.Hashes["sha256"]), t.name)), t.body, 0o644); err != nil {
			return err
		}
	}
	write := func(sign func(signature.Signer) (*metadata.Signature, error), bytes func(bool) ([]byte, error), names ...string) error {
		if _, err := sign(signer); err != nil {
			return err
		}
		b, err := bytes(true)
		for _, name := range names {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), append(b, '\n'), 0o644))
		}
		return err
	}
	return errors.Join(
		write(root.Sign, root.ToBytes, "root.json", "1.root.json"), write(targets.Sign, targets.ToBytes, "1.targets.json", "targets.json"),
		write(snapshot.Sign, snapshot.ToBytes, "1.snapshot.json", "snapshot.json"), write(timestamp.Sign, timestamp.ToBytes, "timestamp.json"),
	)
}
