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
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	statement "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdxlib"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
)

// program is a substitute for ephor: it prints completions, and pages of commands. This test builds it for each platform.
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

// version is that of the release under test.
var version = "1.2.3-rc.1"

// given is the folder of a release that `make release` wrote. It is empty for the small release that the tests write themselves.
var given = os.Getenv("EPHOR_RELEASE")

// shipped are the platforms of the release under test: those in PLATFORMS, or all.
var shipped = func() []string {
	if list := os.Getenv("PLATFORMS"); given != "" && list != "" {
		selected, err := selectPlatforms(list)
		if err != nil {
			panic(err)
		}
		return selected
	}
	return platforms
}()

// written returns a release that was written once for all tests, and the same written again. EPHOR_RELEASE and VERSION select another one,
// and EPHOR_RELEASE_AGAIN the same from another clone.
var written = func() func(t *testing.T) (first, again string) {
	dirs := [2]string{given, os.Getenv("EPHOR_RELEASE_AGAIN")}
	return func(t *testing.T) (string, string) {
		t.Helper()
		if dirs[0] != "" {
			return dirs[0], dirs[1]
		}
		root := scratch
		for path, content := range map[string]string{
			"program/main.go": program, "program/go.mod": "module example.com/program\n\ngo 1.26.0\n",
			"LICENSE": "licence", "home.env": "# a comment\nEPHOR_HOME=forge.example/owner/ephor\nEPHOR_REGISTRY=registry.example\nEPHOR_CONTACT=maintainers@forge.example\n", "README.md": "readme", "CHANGELOG.md": "changes",
			"charts/ephor/Chart.yaml":           "apiVersion: v2\nname: ephor\ndescription: d\nversion: 0.0.0\nappVersion: 0.0.0\n",
			"charts/ephor-policies/Chart.yaml":  "apiVersion: v2\nname: ephor-policies\ndescription: d\nversion: 0.0.0\nappVersion: 0.0.0\n",
			"charts/ephor-policies/values.yaml": "policyType: null\n",
			"charts/ephor/values.yaml":          "image:\n  # a\n  registry: \"\"\n  repository: ephor\nglobal:\n  image:\n    # b\n    registry: null\n",
			"install.yaml":                      "kind: Namespace\n",
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
				"-registry", "registry.example.com/team", "-version", version, "-revision", "17e22571aa0fd7b1d4b1d5a1e9a2c5dd8a7d1f10", "-time", "2026-01-02T03:04:05Z", dirs[i],
			}); err != nil {
				t.Fatal(err)
			}
		}
		return dirs[0], dirs[1]
	}
}()

func TestMain(m *testing.M) {
	if given != "" {
		if version = os.Getenv("VERSION"); checkVersion(version) != nil {
			fmt.Fprintln(os.Stderr, "EPHOR_RELEASE is a release of which VERSION?")
			os.Exit(1)
		}
	}
	var err error
	if scratch, err = os.MkdirTemp("", "ephor-release-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// scratch is a folder for data that several tests share.
var scratch string

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

// listed returns the names of the files of a release, without signatures.
func listed(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if n := e.Name(); !strings.HasSuffix(n, ".sig") && !strings.HasSuffix(n, ".dsse") {
			names = append(names, n)
		}
	}
	return names
}

// A release has exactly these files, and the same inputs give the same bytes.
func TestFiles(t *testing.T) {
	first, again := written(t)
	names := listed(t, first)
	if again != "" {
		if others := listed(t, again); !slices.Equal(names, others) {
			t.Errorf("written again, the files are %v", others)
		}
		for _, n := range names {
			if !bytes.Equal(read(t, first, n), read(t, again, n)) {
				t.Errorf("%s differs when it is written again", n)
			}
		}
	}
	want := strings.Fields(`SHA256SUMS ephor-1.2.3-rc.1.tgz ephor-1.2.3~rc.1-1.aarch64.rpm ephor-1.2.3~rc.1-1.x86_64.rpm ephor-policies-1.2.3-rc.1.tgz
		ephor-policies_1.2.3-rc.1_chart.oci.tar ephor.rb ephor_1.2.3-rc.1.provenance.json ephor_1.2.3-rc.1_chart.oci.tar
		ephor_1.2.3-rc.1_darwin_amd64.spdx.json ephor_1.2.3-rc.1_darwin_amd64.tar.gz ephor_1.2.3-rc.1_darwin_arm64.spdx.json ephor_1.2.3-rc.1_darwin_arm64.tar.gz
		ephor_1.2.3-rc.1_linux_amd64.spdx.json ephor_1.2.3-rc.1_linux_amd64.tar.gz ephor_1.2.3-rc.1_linux_arm64.spdx.json ephor_1.2.3-rc.1_linux_arm64.tar.gz
		ephor_1.2.3-rc.1_windows_amd64.spdx.json ephor_1.2.3-rc.1_windows_amd64.zip ephor_1.2.3-rc.1_windows_arm64.spdx.json ephor_1.2.3-rc.1_windows_arm64.zip
		ephor_1.2.3~rc.1-1_amd64.deb ephor_1.2.3~rc.1-1_arm64.deb install.sh install.yaml krew.yaml`)
	for _, p := range platforms {
		if !slices.Contains(shipped, p) {
			want = slices.DeleteFunc(want, func(n string) bool { return isFor(n, p) })
		}
	}
	if given != "" {
		for i, n := range want {
			want[i] = strings.NewReplacer("1.2.3-rc.1", version, "1.2.3~rc.1", packageVersion(version)).Replace(n)
		}
		want = append(want, imageLayout(version))
		slices.Sort(want)
	}
	if !slices.Equal(names, want) {
		t.Errorf("the release has\n%s", strings.Join(names, "\n"))
	}
}

// isFor reports whether a file of a release is for the platform.
func isFor(file, platform string) bool {
	system, arch, _ := strings.Cut(platform, "/")
	if system == "linux" && (strings.HasSuffix(file, "_"+arch+".deb") || strings.HasSuffix(file, map[string]string{"amd64": ".x86_64.rpm", "arm64": ".aarch64.rpm"}[arch])) {
		return true
	}
	return strings.Contains(file, "_"+system+"_"+arch+".")
}

// Archives contain the program, completions and manual pages.
func TestArchives(t *testing.T) {
	dir, _ := written(t)
	want := strings.Fields("CHANGELOG.md LICENSE README.md completions/_ephor completions/ephor.bash completions/ephor.fish completions/ephor.ps1 ephor man/ephor-apply.1")
	in, err := gzip.NewReader(bytes.NewReader(read(t, dir, archiveName(version, "linux/amd64"))))
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
			parts := []string{`.TH "EPHOR-APPLY" "1" "January 2026" "ephor 1.2.3-rc.1"`, ".SH NAME", ".SH OPTIONS", "--x   y", `\fBephor\fP(1)`}
			if given != "" {
				parts = []string{`.TH "EPHOR-APPLY" "1"`, `"ephor ` + version + `"`, ".SH NAME", ".SH OPTIONS", "--policy-report", `\fBephor\fP(1)`}
			}
			for _, part := range parts {
				if !strings.Contains(string(page), part) {
					t.Errorf("the manual page lacks %q:\n%s", part, page)
				}
			}
		}
	}
	// Ephor has many commands, and a manual page for each.
	others := func(n string) bool { return given != "" && strings.HasPrefix(n, "man/") && n != "man/ephor-apply.1" }
	pages := len(names)
	if names = slices.DeleteFunc(names, others); !slices.Equal(names, want) || given != "" && pages-len(names) < 30 {
		t.Errorf("tar: %v and %d more manual pages", names, pages-len(names))
	}
	if !slices.Contains(shipped, "windows/arm64") {
		t.Log("the release has no archive for windows/arm64")
		return
	}
	content := read(t, dir, archiveName(version, "windows/arm64"))
	z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	names = nil
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	want[slices.Index(want, "ephor")] = "ephor.exe"
	if names = slices.DeleteFunc(names, others); !slices.Equal(names, want) {
		t.Errorf("zip: %v", names)
	}
}

// serve serves the files in a folder. Below /changed/, those with the suffix have other content.
func serve(t *testing.T, dir, suffix string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, err := os.ReadFile(filepath.Join(dir, filepath.Base(r.URL.Path)))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/changed/") && strings.HasSuffix(r.URL.Path, suffix) {
			content = append(content, 'x')
		}
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	return server
}

// needs skips a test unless one of the programs is there. The last lines of `make test` name what is missing.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			return
		}
	}
	t.Skip("NOT RUN: there is no " + strings.Join(programs, ", and no "))
}

// install.sh installs a file with the digest that it names, and rejects anything else.
func TestInstall(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test runs the Linux program")
	}
	needs(t, "curl", "wget")
	dir, _ := written(t)
	server := serve(t, dir, "")
	install := func(to, url string) (string, error) {
		cmd := exec.Command("sh", filepath.Join(dir, "install.sh"))
		cmd.Env = append(os.Environ(), "EPHOR_DIR="+to, "EPHOR_URL="+url)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	to := filepath.Join(t.TempDir(), "bin")
	if out, err := install(to, server.URL); err != nil || !strings.Contains(out, "ephor "+version+" is installed in "+to) {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command(filepath.Join(to, "ephor"), "version").Output(); err != nil || !strings.Contains(string(out), version) {
		t.Errorf("the installed program: %q, %v", out, err)
	}
	refused := filepath.Join(t.TempDir(), "bin")
	if out, err := install(refused, server.URL+"/changed"); err == nil || !strings.Contains(out, "nothing was installed") {
		t.Errorf("a changed archive: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(refused, "ephor")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a changed archive was installed")
	}
	if out, err := install(refused, server.URL+"/none"+"\n"); err == nil {
		t.Errorf("an address without archives: %s", out)
	}
}

// SHA256SUMS is in the form of sha256sum and covers every file; manifests of installers contain the right digests.
func TestSums(t *testing.T) {
	dir, _ := written(t)
	cmd := exec.Command("sha256sum", "--check", "--strict", "--quiet", sumsName)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	sums := string(read(t, dir, sumsName))
	if lines, files := strings.Count(sums, "\n"), len(listed(t, dir))-1; lines != files {
		t.Errorf("%d lines for %d files", lines, files)
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
	if n := len(plugin.Spec.Platforms); n != len(shipped) {
		t.Errorf("krew: %d platforms", n)
	}
	for _, p := range plugin.Spec.Platforms {
		if !strings.Contains(sums, p.SHA256+"  "+filepath.Base(p.URI)+"\n") {
			t.Errorf("krew: %s is not the digest of %s", p.SHA256, p.URI)
		}
	}
	formula := string(read(t, dir, "ephor.rb"))
	for _, p := range ofHomebrew() {
		r := release{output: dir}
		sum, err := r.sum(archiveName(version, p))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(formula, archiveName(version, p)+"\"\n      sha256 \""+sum) {
			t.Errorf("the formula lacks %s", p)
		}
	}
}

// The lists of modules are valid SPDX 2.3: the specification's JSON schema allows them, its own library reads and validates them, and each
// module occurs in exactly one dependency.
func TestMaterials(t *testing.T) {
	dir, _ := written(t)
	bin, err := checkers()
	if err != nil {
		t.Fatal(err)
	}
	validate := func(file string) (string, error) {
		out, err := exec.Command(filepath.Join(bin, "sbom-utility"), "validate", "--quiet", "--input-file", file).CombinedOutput()
		return string(out), err
	}
	for _, p := range shipped {
		file := "ephor_" + version + "_" + strings.ReplaceAll(p, "/", "_") + ".spdx.json"
		if out, err := validate(filepath.Join(dir, file)); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
		text := read(t, dir, file)
		doc, err := spdxjson.Read(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err := spdxlib.ValidateDocument(doc); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		first, least := "example.com/program", 2
		if given != "" {
			first, least = "ephor.invalid/ephor", 100
		}
		if len(doc.Packages) < least || doc.Packages[0].PackageName != first || doc.Packages[1].PackageName != "stdlib" {
			t.Errorf("%s: %d packages: %+v", file, len(doc.Packages), doc.Packages[:2])
		}
		related := map[common.ElementID]int{}
		for _, r := range doc.Relationships {
			related[r.RefB.ElementRefID]++
		}
		for _, p := range doc.Packages {
			if p.PackageName == "" || p.PackageVersion == "" || related[p.PackageSPDXIdentifier] != 1 {
				t.Errorf("%s: %d relations name %+v", file, related[p.PackageSPDXIdentifier], p)
			}
		}
		if at, err := time.Parse("2006-01-02T15:04:05Z", doc.CreationInfo.Created); err != nil {
			t.Errorf("%s: created %s: %v", file, at, err)
		}
	}
	wrong := filepath.Join(t.TempDir(), "wrong.spdx.json")
	write(t, wrong, strings.Replace(string(read(t, dir, "ephor_"+version+"_linux_amd64.spdx.json")), "DEPENDS_ON", "NEEDS", 1))
	if out, err := validate(wrong); err == nil {
		t.Errorf("the schema allows another relation: %s", out)
	}
}

// The provenance is a valid in-toto statement with a valid SLSA predicate, about every file that existed before it.
func TestProvenance(t *testing.T) {
	dir, _ := written(t)
	s := &statement.Statement{}
	if err := protojson.Unmarshal(read(t, dir, provenanceName(version)), s); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	content, err := protojson.Marshal(s.Predicate)
	if err != nil {
		t.Fatal(err)
	}
	predicate := &slsa.Provenance{}
	if err := protojson.Unmarshal(content, predicate); err != nil { // an unknown field is an error
		t.Fatal(err)
	}
	if err := predicate.Validate(); err != nil || s.Type != "https://in-toto.io/Statement/v1" || s.PredicateType != "https://slsa.dev/provenance/v1" {
		t.Errorf("%s %s: %v", s.Type, s.PredicateType, err)
	}
	r := release{output: dir}
	for _, subject := range s.Subject {
		if sum, err := r.sum(subject.Name); err != nil || sum != subject.Digest["sha256"] {
			t.Errorf("%s: %s, %v", subject.Name, subject.Digest, err)
		}
	}
	if files := len(listed(t, dir)) - 2; len(s.Subject) != files { // without the statement and the digests
		t.Errorf("%d subjects, %d files", len(s.Subject), files)
	}
}

// The chart has the version of the release; a registry stores it as Helm expects.
func TestChart(t *testing.T) {
	dir, _ := written(t)
	server := httptest.NewServer(registry.New())
	defer server.Close()
	reference := strings.TrimPrefix(server.URL, "http://") + "/charts/ephor:" + version
	if err := pushLayout(filepath.Join(dir, chartLayout("ephor", version)), reference); err != nil {
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
	var metadata map[string]any
	if err := json.Unmarshal(config, &metadata); err != nil || metadata["version"] != version || metadata["appVersion"] != version {
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
	if err != nil || !bytes.Equal(content, read(t, dir, "ephor-"+version+".tgz")) {
		t.Errorf("the chart in the registry is another one: %v", err)
	}
	if given != "" {
		return
	}
	// Without values it installs the image of the release. Users can override the global registry.
	values := `image:
  # a
  registry: ""
  repository: team/ephor
global:
  image:
    # b
    registry: registry.example.com
`
	zipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := io.ReadAll(zipped)
	if err != nil || !bytes.Contains(packed, []byte(values)) {
		t.Errorf("the values of the chart: %v", err)
	}
}

// An external key signs the digests and the provenance.
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
	for _, n := range []string{sumsName, provenanceName(version)} {
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
	if err := json.Unmarshal(read(t, copied, provenanceName(version)+".dsse"), &envelope); err != nil {
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
