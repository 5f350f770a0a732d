package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"encoding/binary"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// executable is the smallest file that names its architecture as a program does.
func executable(t *testing.T, machine elf.Machine) string {
	t.Helper()
	header := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64, Phentsize: 56, Shentsize: 64}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	var out bytes.Buffer
	if err := binary.Write(&out, binary.LittleEndian, header); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, out.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func both(t *testing.T) options {
	return options{version: "1.2.3", revision: "abc", created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), programs: []program{
		{"linux/amd64", executable(t, elf.EM_X86_64)}, {"linux/arm64", executable(t, elf.EM_AARCH64)},
	}}
}

// The layout, read back, has two platforms, an ordinary user, two files in each image, and valid digests.
func TestLayout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "build", "image")
	index, err := build(both(t))
	if err != nil {
		t.Fatal(err)
	}
	digest, err := write(index, dir, "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Digest != digest || manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "1.2.3" {
		t.Fatalf("index.json: %+v", manifest.Manifests)
	}
	stored, err := top.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(stored); err != nil {
		t.Error(err)
	}
	platforms, err := stored.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, d := range platforms.Manifests {
		found = append(found, d.Platform.String())
		image, err := stored.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, d.Platform)
	}
	if !slices.Equal(found, []string{"linux/amd64", "linux/arm64"}) {
		t.Error(found)
	}
}

func checkImage(t *testing.T, image v1.Image, platform *v1.Platform) {
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; config.Architecture != platform.Architecture || config.OS != "linux" || c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/ephor"}) ||
		c.Labels["org.opencontainers.image.version"] != "1.2.3" || !config.Created.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("config of %s: %+v", platform, config)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for tr := tar.NewReader(r); ; {
			h, err := tr.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Uid != 0 || h.Gid != 0 || h.Mode&0o022 != 0 {
				t.Errorf("%s: others may write it", h.Name)
			}
			if files[h.Name], err = io.ReadAll(tr); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := check(files["ephor"], platform.Architecture); err != nil {
		t.Error(err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"]) || bytes.Count(files["etc/ssl/certs/ca-certificates.crt"], []byte("BEGIN CERTIFICATE")) < 50 {
		t.Error("the certificate authorities are missing")
	}
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"ephor", "etc/", "etc/ssl/", "etc/ssl/certs/", "etc/ssl/certs/ca-certificates.crt"}) {
		t.Error(names)
	}
}

// The same inputs give the same image.
func TestReproducible(t *testing.T) {
	o := both(t)
	var digests []v1.Hash
	for range 2 {
		index, err := build(o)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := index.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
	}
	if digests[0] != digests[1] {
		t.Error(digests)
	}
}

// Programs for another architecture, and files that are not programs, are rejected.
func TestWrongProgram(t *testing.T) {
	o := both(t)
	o.programs[0].platform = "linux/arm64"
	if _, err := build(o); err == nil || !strings.Contains(err.Error(), "the program is for EM_X86_64, not for arm64") {
		t.Error(err)
	}
	o.programs[0].path = "build_test.go"
	if _, err := build(o); err == nil {
		t.Error("a text was taken for a program")
	}
}

// A pushed image can be pulled.
func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	index, err := build(both(t))
	if err != nil {
		t.Fatal(err)
	}
	reference := strings.TrimPrefix(server.URL, "http://") + "/team/ephor:1.2.3"
	if err := pushIndex(index, reference); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(got); err != nil {
		t.Error(err)
	}
}
