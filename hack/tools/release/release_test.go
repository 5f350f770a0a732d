package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	statement "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	spdxjson "github.com/spdx/tools-golang/json"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
)

// program stands for ephor: it prints completions, and pages of commands. Its build is the one of this test for each platform.
const program = `package main

import ("fmt"; "os"; "path/filepath")

func main() {
	switch os.Args[1] {
	case "completion":
		fmt.Println("# completion for", os.Args[2])
	case "docs":
		page := "## ephor apply\n\nApply policies\n\n### Options\n\n` + "```\\n      --x   y\\n```" + `\n\n### SEE ALSO\n\n* [ephor](ephor.md)\t - Policies\n"
		if err := os.WriteFile(filepath.Join(os.Args[3], "ephor_apply.md"), []byte(page), 0o600); err != nil { panic(err) }
	case "version":
		fmt.Println("ephor 1.2.3-rc.1")
	}
}
`

// written is a release that was written once for all tests, and the same written again.
var written = func() func(t *testing.T) (first, again string) {
	var dirs [2]string
	return func(t *testing.T) (string, string) {
		t.Helper()
		if dirs[0] != "" {
			return dirs[0], dirs[1]
		}
		root, err := os.MkdirTemp("", "ephor-release-test-")
		if err != nil {
			t.Fatal(err)
		}
		for path, content := range map[string]string{
			"program/main.go": program, "program/go.mod": "module example.com/program\n\ngo 1.26.0\n",
			"LICENSE": "licence", "README.md": "readme", "CHANGELOG.md": "changes",
			"charts/ephor/Chart.yaml":  "apiVersion: v2\nname: ephor\ndescription: d\nversion: 0.0.0\nappVersion: 0.0.0\n",
			"charts/ephor/values.yaml": "a: b\n",
			"install.yaml":             "kind: Namespace\n",
		} {
			write(t, filepath.Join(root, path), content)
		}
		for _, p := range platforms {
			system, arch, _ := strings.Cut(p, "/")
			r := release{programs: filepath.Join(root, "programs")}
			cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", r.program(p), ".")
			cmd.Dir = filepath.Join(root, "program")
			cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", p, err, out)
			}
		}
		for i := range dirs {
			dirs[i] = filepath.Join(root, fmt.Sprint("release-", i))
			r := release{programs: filepath.Join(root, "programs")}
			if err := run([]string{
				"-source", root, "-manifest", filepath.Join(root, "install.yaml"), "-programs", r.programs, "-ephor", r.program(runtime.GOOS + "/" + runtime.GOARCH),
				"-version", "1.2.3-rc.1", "-revision", "17e22571aa0fd7b1d4b1d5a1e9a2c5dd8a7d1f10", "-time", "2026-01-02T03:04:05Z", dirs[i],
			}); err != nil {
				t.Fatal(err)
			}
		}
		return dirs[0], dirs[1]
	}
}()

func TestMain(m *testing.M) {
	code := m.Run()
	for _, dir := range glob(filepath.Join(os.TempDir(), "ephor-release-test-*")) {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func glob(pattern string) []string { found, _ := filepath.Glob(pattern); return found }

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// A release has exactly these files, and the same inputs give the same bytes.
func TestFiles(t *testing.T) {
	first, again := written(t)
	var names []string
	entries, err := os.ReadDir(first)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
		if !bytes.Equal(read(t, first, e.Name()), read(t, again, e.Name())) {
			t.Errorf("%s differs when it is written again", e.Name())
		}
	}
	want := strings.Fields(`SHA256SUMS ephor-1.2.3-rc.1.tgz ephor-1.2.3~rc.1-1.aarch64.rpm ephor-1.2.3~rc.1-1.x86_64.rpm ephor.rb
		ephor_1.2.3-rc.1.provenance.json ephor_1.2.3-rc.1_chart.oci.tar
		ephor_1.2.3-rc.1_darwin_amd64.spdx.json ephor_1.2.3-rc.1_darwin_amd64.tar.gz ephor_1.2.3-rc.1_darwin_arm64.spdx.json ephor_1.2.3-rc.1_darwin_arm64.tar.gz
		ephor_1.2.3-rc.1_linux_amd64.spdx.json ephor_1.2.3-rc.1_linux_amd64.tar.gz ephor_1.2.3-rc.1_linux_arm64.spdx.json ephor_1.2.3-rc.1_linux_arm64.tar.gz
		ephor_1.2.3-rc.1_windows_amd64.spdx.json ephor_1.2.3-rc.1_windows_amd64.zip ephor_1.2.3-rc.1_windows_arm64.spdx.json ephor_1.2.3-rc.1_windows_arm64.zip
		ephor_1.2.3~rc.1-1_amd64.deb ephor_1.2.3~rc.1-1_arm64.deb install.sh install.yaml krew.yaml`)
	if !slices.Equal(names, want) {
		t.Errorf("the release has\n%s", strings.Join(names, "\n"))
	}
}

// Archives hold the program, completions and manual pages.
func TestArchives(t *testing.T) {
	dir, _ := written(t)
	want := strings.Fields("CHANGELOG.md LICENSE README.md completions/_ephor completions/ephor.bash completions/ephor.fish completions/ephor.ps1 ephor man/ephor-apply.1")
	in, err := gzip.NewReader(bytes.NewReader(read(t, dir, archiveName("1.2.3-rc.1", "linux/amd64"))))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if executable := h.Mode&0o111 != 0; executable != (h.Name == "ephor") {
			t.Errorf("%s has mode %o", h.Name, h.Mode)
		}
		if h.Name == "man/ephor-apply.1" {
			page, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{`.TH "EPHOR-APPLY" "1" "January 2026" "ephor 1.2.3-rc.1"`, ".SH NAME", ".SH OPTIONS", "--x   y", `\fBephor\fP(1)`} {
				if !strings.Contains(string(page), part) {
					t.Errorf("the manual page lacks %q:\n%s", part, page)
				}
			}
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("tar: %v", names)
	}
	content := read(t, dir, archiveName("1.2.3-rc.1", "windows/arm64"))
	z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	names = nil
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	want[slices.Index(want, "ephor")] = "ephor.exe"
	if !slices.Equal(names, want) {
		t.Errorf("zip: %v", names)
	}
}

// install.sh installs what has the digest that it names, and refuses anything else.
func TestInstall(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test runs the Linux program")
	}
	dir, _ := written(t)
	changed := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, err := os.ReadFile(filepath.Join(dir, filepath.Base(r.URL.Path)))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(append(content, changed...))
	}))
	defer server.Close()
	install := func(to, url string) (string, error) {
		cmd := exec.Command("sh", filepath.Join(dir, "install.sh"))
		cmd.Env = append(os.Environ(), "EPHOR_DIR="+to, "EPHOR_URL="+url)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	to := filepath.Join(t.TempDir(), "bin")
	if out, err := install(to, server.URL); err != nil || !strings.Contains(out, "ephor 1.2.3-rc.1 is installed in "+to) {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command(filepath.Join(to, "ephor"), "version").Output(); err != nil || string(out) != "ephor 1.2.3-rc.1\n" {
		t.Errorf("the installed program: %q, %v", out, err)
	}
	changed = "x"
	refused := filepath.Join(t.TempDir(), "bin")
	if out, err := install(refused, server.URL); err == nil || !strings.Contains(out, "nothing was installed") {
		t.Errorf("a changed archive: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(refused, "ephor")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a changed archive was installed")
	}
	if out, err := install(refused, server.URL+"/none"+"\n"); err == nil {
		t.Errorf("an address without archives: %s", out)
	}
}

// SHA256SUMS is in the form of sha256sum and covers every file; manifests of installers name the right digests.
func TestSums(t *testing.T) {
	dir, _ := written(t)
	cmd := exec.Command("sha256sum", "--check", "--strict", "--quiet", sumsName)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	sums := string(read(t, dir, sumsName))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(sums, "\n"); lines != len(entries)-1 {
		t.Errorf("%d lines for %d files", lines, len(entries)-1)
	}
	var plugin struct {
		Spec struct {
			Platforms []struct {
				URI, SHA256, Bin string
				Selector         struct{ MatchLabels map[string]string }
			}
		}
	}
	if err := yaml.UnmarshalStrict(read(t, dir, "krew.yaml"), &struct{}{}); err == nil {
		t.Error("strict decoding reads nothing")
	}
	if err := yaml.Unmarshal(read(t, dir, "krew.yaml"), &plugin); err != nil {
		t.Fatal(err)
	}
	if n := len(plugin.Spec.Platforms); n != len(platforms) {
		t.Errorf("krew: %d platforms", n)
	}
	for _, p := range plugin.Spec.Platforms {
		if !strings.Contains(sums, p.SHA256+"  "+filepath.Base(p.URI)+"\n") {
			t.Errorf("krew: %s is not the digest of %s", p.SHA256, p.URI)
		}
	}
	formula := string(read(t, dir, "ephor.rb"))
	for _, p := range []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64"} {
		r := release{output: dir}
		sum, err := r.sum(archiveName("1.2.3-rc.1", p))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(formula, archiveName("1.2.3-rc.1", p)+"\"\n      sha256 \""+sum) {
			t.Errorf("the formula lacks %s", p)
		}
	}
}

// The list of modules is valid SPDX, and the provenance a valid statement about every file that existed before it.
func TestMaterials(t *testing.T) {
	dir, _ := written(t)
	doc, err := spdxjson.Read(bytes.NewReader(read(t, dir, "ephor_1.2.3-rc.1_linux_amd64.spdx.json")))
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Packages) != 2 || doc.Packages[0].PackageName != "example.com/program" || doc.Packages[1].PackageName != "stdlib" || len(doc.Relationships) != 2 {
		t.Errorf("%+v", doc.Packages)
	}
	s := &statement.Statement{}
	if err := protojson.Unmarshal(read(t, dir, provenanceName("1.2.3-rc.1")), s); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	r := release{output: dir}
	for _, subject := range s.Subject {
		if sum, err := r.sum(subject.Name); err != nil || sum != subject.Digest["sha256"] {
			t.Errorf("%s: %s, %v", subject.Name, subject.Digest, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Subject) != len(entries)-2 {
		t.Errorf("%d subjects of %d files", len(s.Subject), len(entries))
	}
}

// The chart carries the version of the release; a registry holds it as Helm expects.
func TestChart(t *testing.T) {
	dir, _ := written(t)
	server := httptest.NewServer(registry.New())
	defer server.Close()
	reference := strings.TrimPrefix(server.URL, "http://") + "/charts/ephor:1.2.3-rc.1"
	if err := pushLayout(filepath.Join(dir, chartLayout("1.2.3-rc.1")), reference); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	var metadata map[string]string
	if err := json.Unmarshal(config, &metadata); err != nil || metadata["version"] != "1.2.3-rc.1" || metadata["appVersion"] != "1.2.3-rc.1" {
		t.Errorf("%v, %v", metadata, err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.Config.MediaType != chartConfig || len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != chartContent {
		t.Errorf("%+v", manifest)
	}
	blob, err := image.LayerByDigest(manifest.Layers[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	in, err := blob.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(in)
	if err != nil || !bytes.Equal(content, read(t, dir, "ephor-1.2.3-rc.1.tgz")) {
		t.Errorf("the chart in the registry is another one: %v", err)
	}
}

// A key from outside signs the digests and the provenance.
func TestSign(t *testing.T) {
	dir, _ := written(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key.pem")
	write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	copied := t.TempDir()
	for _, n := range []string{sumsName, provenanceName("1.2.3-rc.1")} {
		write(t, filepath.Join(copied, n), string(read(t, dir, n)))
	}
	if err := sign([]string{"-key", path, copied}); err != nil {
		t.Fatal(err)
	}
	signature, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(read(t, copied, sumsName+".sig"))))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(read(t, copied, sumsName)); !ecdsa.VerifyASN1(&key.PublicKey, sum[:], signature) {
		t.Error("the signature of the digests does not verify")
	}
	var envelope dsse.Envelope
	if err := json.Unmarshal(read(t, copied, provenanceName("1.2.3-rc.1")+".dsse"), &envelope); err != nil {
		t.Fatal(err)
	}
	verifier, err := dsse.NewEnvelopeVerifier(publicKey{&key.PublicKey})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verifier.Verify(context.Background(), &envelope); err != nil {
		t.Error(err)
	}
}

// publicKey implements dsse.Verifier.
type publicKey struct{ *ecdsa.PublicKey }

func (k publicKey) Verify(_ context.Context, data, signature []byte) error {
	if sum := sha256.Sum256(data); !ecdsa.VerifyASN1(k.PublicKey, sum[:], signature) {
		return errors.New("the signature does not verify")
	}
	return nil
}
func (k publicKey) KeyID() (string, error)   { return "", nil }
func (k publicKey) Public() crypto.PublicKey { return k.PublicKey }

// Versions are semantic ones without build metadata.
func TestVersions(t *testing.T) {
	for version, ok := range map[string]bool{"1.2.3": true, "1.2.3-rc.1": true, "v1.2.3": false, "1.2": false, "1.2.3+x": false, "": false} {
		if err := checkVersion(version); (err == nil) != ok {
			t.Errorf("%q: %v", version, err)
		}
	}
}
