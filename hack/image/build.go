package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// options defines the content of an image.
type options struct {
	version, revision string
	created           time.Time
	programs          []program
}

// program is one build of the program.
type program struct{ platform, path string }

const (
	programPath = "ephor"
	rootsPath   = "etc/ssl/certs/ca-certificates.crt"
	// user is the user and group "nonroot" of distroless images. It is a number, so that Kubernetes can check that it is
	// not root.
	user = "65532:65532"
)

// build builds the index with one image per platform.
func build(o options) (v1.ImageIndex, error) {
	roots, err := layer(o.created, file{rootsPath, 0o644, authorities()})
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range o.programs {
		platform, err := v1.ParsePlatform(p.platform)
		if err != nil {
			return nil, err
		}
		content, err := os.ReadFile(p.path)
		if err != nil {
			return nil, err
		}
		if err := check(content, platform.Architecture); err != nil {
			return nil, fmt.Errorf("%s: %w", p.path, err)
		}
		binary, err := layer(o.created, file{programPath, 0o755, content})
		if err != nil {
			return nil, err
		}
		image, err := image(o, platform, roots, binary)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return index, nil
}

func image(o options, platform *v1.Platform, layers ...v1.Layer) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, l := range layers {
		var err error
		if image, err = mutate.Append(image, mutate.Addendum{Layer: l, History: v1.History{Created: v1.Time{Time: o.created}, CreatedBy: "hack/image"}}); err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Created = v1.Time{Time: o.created}
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Config = v1.Config{
		User: user, WorkingDir: "/", Entrypoint: []string{"/" + programPath}, Env: []string{"PATH=/"},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "ephor",
			"org.opencontainers.image.version":  o.version,
			"org.opencontainers.image.revision": o.revision,
			"org.opencontainers.image.created":  o.created.UTC().Format(time.RFC3339),
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// file is a file in a layer; root owns everything, and no user may write.
type file struct {
	path    string
	mode    int64
	content []byte
}

// layer builds a compressed layer with one file and its folders. Times, owners and the compression do not depend on the
// machine.
func layer(created time.Time, f file) (v1.Layer, error) {
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	plain := sha256.New()
	w := tar.NewWriter(io.MultiWriter(zip, plain))
	for dir := range folders(f.path) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: created, Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.content)), ModTime: created, Format: tar.FormatUSTAR}); err != nil {
		return nil, err
	}
	if _, err := w.Write(f.content); err != nil {
		return nil, err
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		return nil, err
	}
	return &described{Layer: static.NewLayer(out.Bytes(), types.OCILayer), plain: plain.Sum(nil)}, nil
}

// folders returns the folders above the path, the outermost first.
func folders(path string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i, c := range path {
			if c == '/' && !yield(path[:i]) {
				return
			}
		}
	}
}

// described is a static layer that knows the digest of its uncompressed content.
type described struct {
	v1.Layer
	plain []byte
}

// DiffID returns that digest.
func (l *described) DiffID() (v1.Hash, error) {
	return v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", l.plain)}, nil
}

// authorities returns Mozilla's authorities in PEM. It omits those that are limited to some certificates, since a file
// cannot express that.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer does not fail
		}
	}
	return out.Bytes()
}

// machines are the architectures by Go's names.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// check rejects programs for another architecture, and those that need a shared library, since the image has none.
func check(program []byte, architecture string) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return err
	}
	if want := machines[architecture]; f.Machine != want {
		return fmt.Errorf("the program is for %s, not for %s", f.Machine, architecture)
	}
	if libraries, err := f.ImportedLibraries(); err == nil && len(libraries) > 0 {
		return fmt.Errorf("the program needs %v: build it with CGO_ENABLED=0", libraries)
	}
	return nil
}

// write writes the index to dir as an image layout, under the name of the version, and returns the index's digest.
func write(index v1.ImageIndex, dir, version string) (v1.Hash, error) {
	digest, err := index.Digest()
	if err != nil {
		return digest, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return digest, err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "image-")
	if err != nil {
		return digest, err
	}
	defer os.RemoveAll(fresh)
	if err := os.Chmod(fresh, 0o755); err != nil {
		return digest, err
	}
	path, err := layout.Write(fresh, empty.Index)
	if err != nil {
		return digest, err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version})); err != nil {
		return digest, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return digest, err
	}
	return digest, os.Rename(fresh, dir)
}

func pushIndex(index v1.ImageIndex, reference string) error {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return err
	}
	return remote.WriteIndex(ref, index, remote.WithAuthFromKeychain(authn.DefaultKeychain))
}
