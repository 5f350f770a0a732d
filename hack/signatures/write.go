package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// list is fixture.json.
type list struct {
	Made     string            `json:"made"`
	Programs map[string]string `json:"programs"`
	Images   map[string]image  `json:"images"`
	// Keys are public keys and Certificates the trusted ones for Notary signatures, in PEM.
	Keys         map[string]string `json:"keys"`
	Certificates map[string]string `json:"certificates"`
	Trust        trust             `json:"trust"`
	Suite        suite             `json:"suite"`
}

// trust holds what is needed to verify signatures without keys; all but the trusted root is PEM.
type trust struct {
	Roots         string          `json:"roots"`
	Intermediates string          `json:"intermediates"`
	OtherRoots    string          `json:"otherRoots"`
	Rekor         string          `json:"rekor"`
	CTLog         string          `json:"ctlog"`
	TSA           string          `json:"tsa"`
	TrustedRoot   json.RawMessage `json:"trustedRoot"`
}

// write writes fixture.json and images.tar.gz, an OCI layout.
func (w *workshop) write(dir string) error {
	l := list{
		Made: time.Now().UTC().Format(time.RFC3339), Programs: map[string]string{}, Images: w.images, Keys: map[string]string{}, Certificates: w.certs, Suite: w.suite,
	}
	for _, p := range allPrograms {
		l.Programs[p.name] = p.version
	}
	for name, k := range w.keys {
		b, err := publicPEM(k.signer.Public())
		if err != nil {
			return err
		}
		l.Keys[name] = string(b)
	}
	rekor, err1 := publicPEM(&w.log.key.PublicKey)
	ct, err2 := publicPEM(&w.authority.log.PublicKey)
	root, err3 := w.trustedRoot()
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	l.Trust = trust{
		Roots: string(certificatePEM(w.authority.root)), Intermediates: string(certificatePEM(w.authority.intermediate)), OtherRoots: string(certificatePEM(w.other.root)),
		Rekor: string(rekor), CTLog: string(ct), TSA: string(w.tsaChain), TrustedRoot: root,
	}
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	archive, err := w.layout()
	if err != nil {
		return err
	}
	if err := w.writeTUF(filepath.Join(dir, "tuf"), root); err != nil {
		return err
	}
	fmt.Printf("fixture.json %d kB, images.tar.gz %d kB\n", len(b)/1000, len(archive)/1000)
	return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "fixture.json"), append(b, '\n'), 0o644), os.WriteFile(filepath.Join(dir, "images.tar.gz"), archive, 0o644))
}

// layout packs everything that was pushed as an OCI layout. The annotation org.opencontainers.image.ref.name of each
// manifest is the whole name, with the host, and with the digest if no tag names it.
func (w *workshop) layout() ([]byte, error) {
	children := map[string]bool{}
	for _, p := range w.registries.pushed {
		if len(p.tags) > 0 {
			for _, d := range p.manifest.Manifests {
				children[p.repository+"@"+d.Digest] = true
			}
		}
	}
	index := struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Manifests     []descriptor `json:"manifests"`
	}{2, "application/vnd.oci.image.index.v1+json", nil}
	files := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}
	blob := func(digest string, b []byte) { files["blobs/sha256/"+digest[len("sha256:"):]] = b }
	for _, p := range w.registries.pushed {
		byDigest := p.repository + "@" + p.digest
		var names []string
		for _, tag := range p.tags {
			names = append(names, p.repository+":"+tag)
		}
		if len(names) == 0 {
			if p.manifest.Subject == nil && !children[byDigest] {
				continue // it was replaced when another signature was added to it
			}
			names = []string{byDigest}
		}
		for _, name := range names {
			index.Manifests = append(index.Manifests, descriptor{
				MediaType: p.mediaType, Digest: p.digest, Size: int64(len(p.body)), Annotations: map[string]string{"org.opencontainers.image.ref.name": name},
			})
		}
		blob(p.digest, p.body)
		needed := p.manifest.Layers
		if p.manifest.Config != nil {
			needed = append(needed, *p.manifest.Config)
		}
		for _, d := range needed {
			b, err := w.registries.blob(p.repository, d.Digest)
			if err != nil {
				return nil, err
			}
			if sum := sha256.Sum256(b); "sha256:"+hex.EncodeToString(sum[:]) != d.Digest {
				return nil, fmt.Errorf("blob %s of %s has other bytes", d.Digest, p.repository)
			}
			blob(d.Digest, b)
		}
	}
	var err error
	if files["index.json"], err = json.MarshalIndent(index, "", "  "); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}); err != nil {
			return nil, err
		}
		if _, err := t.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// trustedRoot returns all trusted keys and certificates in Sigstore's own form.
func (w *workshop) trustedRoot() (json.RawMessage, error) {
	start := map[string]string{"start": time.Now().Add(-48 * time.Hour).UTC().Format(time.RFC3339)}
	log := func(url string, public []byte) map[string]any {
		der := mustDecode(public)[0]
		sum := sha256.Sum256(der)
		return map[string]any{
			"baseUrl": url, "hashAlgorithm": "SHA2_256", "logId": map[string]string{"keyId": base64.StdEncoding.EncodeToString(sum[:])},
			"publicKey": map[string]any{"rawBytes": base64.StdEncoding.EncodeToString(der), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": start},
		}
	}
	authority := func(url string, chain []byte) (map[string]any, error) {
		var certs []map[string]string
		var last *x509.Certificate
		for _, der := range mustDecode(chain) {
			c, err := x509.ParseCertificate(der)
			if err != nil {
				return nil, err
			}
			last = c
			certs = append(certs, map[string]string{"rawBytes": base64.StdEncoding.EncodeToString(der)})
		}
		return map[string]any{
			"subject": map[string]string{"organization": "ephor.test", "commonName": last.Subject.CommonName}, "uri": url,
			"certChain": map[string]any{"certificates": certs}, "validFor": start,
		}, nil
	}
	rekor, err1 := publicPEM(&w.log.key.PublicKey)
	ct, err2 := publicPEM(&w.authority.log.PublicKey)
	ca, err3 := authority("https://fulcio.ephor.test", certificatePEM(w.authority.intermediate, w.authority.root))
	tsa, err4 := authority("https://timestamp.ephor.test", w.tsaChain)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{
		"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
		"tlogs":     []any{log("https://rekor.ephor.test", rekor)}, "ctlogs": []any{log("https://ctfe.ephor.test", ct)},
		"certificateAuthorities": []any{ca}, "timestampAuthorities": []any{tsa},
	})
}

// mustDecode decodes PEM blocks that this program created.
func mustDecode(b []byte) (blocks [][]byte) {
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			return blocks
		}
		blocks = append(blocks, block.Bytes)
	}
}
