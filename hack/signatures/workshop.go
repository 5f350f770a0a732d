package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// workshop holds the services and the results.
type workshop struct {
	ctx      context.Context
	programs map[string]string
	dir      string

	registries *registries
	proxy      *proxy
	authority  *authority
	other      *authority // no test trusts it unless it says so
	log        *transparencyLog
	logURL     string
	tsaURL     string
	tsaChain   []byte
	stop       []func()

	layer  []byte
	diffID string
	images map[string]image
	keys   map[string]*key
	certs  map[string]string // PEM, of Notary signers
	suite  suite
}

// image is one of the list.
type image struct {
	Repository string `json:"repository"`
	Tag        string `json:"tag"`
	Digest     string `json:"digest"`
	About      string `json:"about"`
}

func (i image) String() string { return i.Repository + "@" + i.Digest }

// key is a key pair as cosign stores it.
type key struct {
	signer crypto.Signer
	prefix string // of the files prefix.key and prefix.pub
}

func newWorkshop(ctx context.Context, programs map[string]string, dir string) (w *workshop, err error) {
	w = &workshop{
		ctx: ctx, programs: programs, dir: dir, registries: newRegistries(),
		images: map[string]image{}, keys: map[string]*key{}, certs: map[string]string{},
	}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.proxy, err = newProxy(w.registries); err != nil {
		return nil, err
	}
	w.stop = append(w.stop, w.proxy.close)
	if w.authority, err = newAuthority("ca.ephor.test"); err != nil {
		return nil, err
	}
	if w.other, err = newAuthority("other-ca.ephor.test"); err != nil {
		return nil, err
	}
	if w.log, err = newTransparencyLog(); err != nil {
		return nil, err
	}
	if w.logURL, err = w.listen(w.log); err != nil {
		return nil, err
	}
	logKey, err1 := publicPEM(&w.log.key.PublicKey)
	ctKey, err2 := publicPEM(&w.authority.log.PublicKey)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	for file, b := range map[string][]byte{
		"proxy.pem": certificatePEM(w.proxy.root), "rekor.pub": logKey, "ctfe.pub": ctKey,
		"chain.pem":       certificatePEM(w.authority.intermediate, w.authority.root),
		"other-chain.pem": certificatePEM(w.other.intermediate, w.other.root),
	} {
		if err := os.WriteFile(w.file(file), b, 0o600); err != nil {
			return nil, err
		}
	}
	if w.layer, w.diffID, err = tinyLayer(); err != nil {
		return nil, err
	}
	return w, w.startTSA()
}

func (w *workshop) close() {
	for _, stop := range w.stop {
		stop()
	}
}

func (w *workshop) file(name string) string { return filepath.Join(w.dir, name) }

func (w *workshop) listen(h http.Handler) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go server.Serve(l)
	w.stop = append(w.stop, func() { server.Close() })
	return "http://" + l.Addr().String(), nil
}

// startTSA starts the timestamp authority, with a key that is discarded.
func (w *workshop) startTSA() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	cmd := exec.Command(w.programs["timestamp-server"], "serve", "--host=127.0.0.1", "--port="+port, "--timestamp-signer=memory", "--disable-ntp-monitoring")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &output, &output, w.dir
	if err := cmd.Start(); err != nil {
		return err
	}
	w.stop = append(w.stop, func() { cmd.Process.Kill(); cmd.Wait() })
	w.tsaURL = "http://127.0.0.1:" + port + "/api/v1/timestamp"
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		resp, err := http.Get(w.tsaURL + "/certchain")
		if err == nil {
			w.tsaChain, err = io.ReadAll(resp.Body)
			resp.Body.Close()
			if err == nil && resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		if time.Now().After(end) {
			return fmt.Errorf("the timestamp authority does not start: %w\n%s", err, output.String())
		}
	}
}

// run runs a program with the common environment.
func (w *workshop) run(program string, env []string, args ...string) error {
	ctx, cancel := context.WithTimeout(w.ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.programs[program], args...)
	cmd.Dir = w.dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "XDG_CONFIG_HOME=" + w.dir, "XDG_CACHE_HOME=" + w.file("cache"), "COSIGN_PASSWORD=",
		"HTTPS_PROXY=http://" + w.proxy.address, "SSL_CERT_FILE=" + w.file("proxy.pem"),
		"SIGSTORE_REKOR_PUBLIC_KEY=" + w.file("rekor.pub"), "SIGSTORE_CT_LOG_PUBLIC_KEY_FILE=" + w.file("ctfe.pub"),
	}, env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return nil
}

// tinyLayer returns the only layer of all images, with the same bytes each time.
func tinyLayer() (compressed []byte, diffID string, err error) {
	var plain, b bytes.Buffer
	t := tar.NewWriter(&plain)
	text := []byte("An image that tests sign.\n")
	if err := t.WriteHeader(&tar.Header{Name: "README", Mode: 0o644, Size: int64(len(text))}); err != nil {
		return nil, "", err
	}
	_, err1 := t.Write(text)
	err2 := t.Close()
	z := gzip.NewWriter(&b)
	_, err3 := z.Write(plain.Bytes())
	err4 := z.Close()
	return b.Bytes(), digestOf(plain.Bytes()), errors.Join(err1, err2, err3, err4)
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// spec is the difference between images. Their digests depend on nothing else.
type spec struct {
	architecture string         // amd64 unless it is set
	user         string         // of the processes
	config       map[string]any // further fields of the configuration
}

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
)

// build pushes an image by its digest and returns its descriptor.
func (w *workshop) build(title, repository string, s spec) (d descriptor, err error) {
	architecture := s.architecture
	if architecture == "" {
		architecture = "amd64"
	}
	settings := map[string]any{"Labels": map[string]string{"org.opencontainers.image.title": title}}
	if s.user != "" {
		settings["User"] = s.user
	}
	config := map[string]any{
		"architecture": architecture, "os": "linux", "created": "2026-01-01T00:00:00Z", "config": settings,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{w.diffID}},
	}
	maps.Copy(config, s.config)
	b, err := json.Marshal(config)
	if err != nil {
		return d, err
	}
	configDescriptor, err1 := w.blob(repository, "application/vnd.oci.image.config.v1+json", b)
	layer, err2 := w.blob(repository, "application/vnd.oci.image.layer.v1.tar+gzip", w.layer)
	if err := errors.Join(err1, err2); err != nil {
		return d, err
	}
	return w.manifest(repository, "", manifestType, map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": configDescriptor, "layers": []descriptor{layer},
	})
}

// blob pushes a blob.
func (w *workshop) blob(repository, mediaType string, b []byte) (descriptor, error) {
	d := descriptor{MediaType: mediaType, Digest: digestOf(b), Size: int64(len(b))}
	return d, w.request(http.MethodPost, repository, "blobs/uploads/?digest="+d.Digest, "application/octet-stream", b)
}

// manifest pushes a manifest under the tag, or by its digest where that is empty.
func (w *workshop) manifest(repository, tag, mediaType string, v any) (descriptor, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	d := descriptor{MediaType: mediaType, Digest: digestOf(b), Size: int64(len(b))}
	if tag == "" {
		tag = d.Digest
	}
	return d, w.request(http.MethodPut, repository, "manifests/"+tag, mediaType, b)
}

// request sends a request to the registry of a repository.
func (w *workshop) request(method, repository, path, contentType string, body []byte) error {
	host, rest, _ := strings.Cut(repository, "/")
	req := httptest.NewRequest(method, "https://"+host+"/v2/"+rest+"/"+path, bytes.NewReader(body))
	req.Header.Set("Content-Type", contentType)
	recorder := httptest.NewRecorder()
	w.registries.ServeHTTP(recorder, req)
	if recorder.Code/100 != 2 {
		return fmt.Errorf("%s %s: status %d: %s", method, req.URL, recorder.Code, recorder.Body)
	}
	return nil
}

// push creates an image with that tag and adds it to the list under the name.
func (w *workshop) push(name, repository, tag, about string) (image, error) {
	return w.pushSpec(name, repository, tag, about, spec{})
}

func (w *workshop) pushSpec(name, repository, tag, about string, s spec) (image, error) {
	d, err := w.build(name, repository, s)
	if err != nil {
		return image{}, err
	}
	p, err := w.registries.find(repository, d.Digest)
	if err != nil {
		return image{}, err
	}
	if err := w.request(http.MethodPut, repository, "manifests/"+tag, manifestType, p.body); err != nil {
		return image{}, err
	}
	return w.listed(name, image{Repository: repository, Tag: tag, Digest: d.Digest, About: about})
}

// pushIndex creates an index with one image for each architecture. The list also contains the children, as
// ⟨name⟩/⟨architecture⟩.
func (w *workshop) pushIndex(name, repository, tag, about string, s spec, architectures ...string) (image, error) {
	var children []map[string]any
	for _, arch := range architectures {
		s.architecture = arch
		d, err := w.build(name, repository, s)
		if err != nil {
			return image{}, err
		}
		children = append(children, map[string]any{
			"mediaType": d.MediaType, "digest": d.Digest, "size": d.Size, "platform": map[string]string{"architecture": arch, "os": "linux"},
		})
		if _, err := w.listed(name+"/"+arch, image{Repository: repository, Digest: d.Digest, About: "the child of " + name + " for " + arch}); err != nil {
			return image{}, err
		}
	}
	d, err := w.manifest(repository, tag, indexType, map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": children})
	if err != nil {
		return image{}, err
	}
	return w.listed(name, image{Repository: repository, Tag: tag, Digest: d.Digest, About: about})
}

func (w *workshop) listed(name string, i image) (image, error) {
	if _, ok := w.images[name]; ok {
		return image{}, fmt.Errorf("two images are named %s", name)
	}
	w.images[name] = i
	return i, nil
}

// key creates a key pair, or returns that with the same name. Kinds are p256, p384, p521, rsa2048, rsa4096 and ed25519.
func (w *workshop) key(name, kind string) (*key, error) {
	if k := w.keys[name]; k != nil {
		return k, nil
	}
	signer, err := generate(kind)
	if err != nil {
		return nil, err
	}
	k, err := w.importKey("key-"+name, signer)
	if err != nil {
		return nil, err
	}
	w.keys[name] = k
	return k, nil
}

func generate(kind string) (crypto.Signer, error) {
	switch kind {
	case "p256":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "p384":
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "p521":
		return ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "rsa2048":
		return rsa.GenerateKey(rand.Reader, 2048)
	case "rsa4096":
		return rsa.GenerateKey(rand.Reader, 4096)
	case "ed25519":
		_, k, err := ed25519.GenerateKey(rand.Reader)
		return k, err
	}
	return nil, fmt.Errorf("no kind of key is named %s", kind)
}

func (w *workshop) importKey(name string, signer crypto.Signer) (*key, error) {
	b, err := privatePEM(signer)
	if err != nil {
		return nil, err
	}
	prefix := w.file(name)
	if err := os.WriteFile(prefix+".plain", b, 0o600); err != nil {
		return nil, err
	}
	return &key{signer: signer, prefix: prefix}, w.run("cosign2", nil, "import-key-pair", "-y", "--key", prefix+".plain", "--output-key-prefix", prefix)
}

// keyless is a key pair with a certificate of an authority, as files.
type keyless struct {
	*key
	cert, chain, log string
}

func (w *workshop) keyless(name string, a *authority, id identity) (*keyless, error) {
	signer, err := generate("p256")
	if err != nil {
		return nil, err
	}
	k, err := w.importKey("leaf-"+name, signer)
	if err != nil {
		return nil, err
	}
	leaf, log, err := a.leaf(id, signer.Public())
	if err != nil {
		return nil, err
	}
	logKey, err := publicPEM(&log.PublicKey)
	if err != nil {
		return nil, err
	}
	out := &keyless{key: k, cert: k.prefix + ".crt", chain: w.file("chain.pem"), log: k.prefix + ".ctfe"}
	if a == w.other {
		out.chain = w.file("other-chain.pem")
	}
	return out, errors.Join(os.WriteFile(out.cert, certificatePEM(leaf), 0o600), os.WriteFile(out.log, logKey, 0o600))
}

// cosign signs or attests with a key, optionally with a certificate.
func (w *workshop) cosign(program, verb string, img image, by any, flags ...string) error {
	args := []string{verb, "-y"}
	var env []string
	switch by := by.(type) {
	case *key:
		args = append(args, "--key", by.prefix+".key")
	case *keyless:
		args = append(args, "--key", by.prefix+".key", "--certificate", by.cert, "--certificate-chain", by.chain)
		env = append(env, "SIGSTORE_CT_LOG_PUBLIC_KEY_FILE="+by.log)
	default:
		return fmt.Errorf("nothing signs with a %T", by)
	}
	if program == "cosign3" {
		args = append(args, "--use-signing-config=false")
	}
	logged := false
	for _, f := range flags {
		if env0, ok := strings.CutPrefix(f, "env:"); ok {
			env = append(env, env0)
			continue
		}
		logged = logged || strings.HasPrefix(f, "--rekor-url")
		args = append(args, f)
	}
	if !logged {
		args = append(args, "--tlog-upload=false")
	}
	return w.run(program, env, append(args, img.String())...)
}

// rekor and tsa return the flags of cosign for an entry in the log, and for a timestamp.
func (w *workshop) rekor() string { return "--rekor-url=" + w.logURL }
func (w *workshop) tsa() string   { return "--timestamp-server-url=" + w.tsaURL }

// predicate writes a predicate into a file and returns the flags of cosign for it.
func (w *workshop) predicate(typ string, v any) ([]string, error) {
	f, err := os.CreateTemp(w.dir, "predicate-*.json")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return []string{"--type=" + typ, "--predicate=" + f.Name()}, json.NewEncoder(f).Encode(v)
}

// notary creates a certificate for Notary signatures, self-signed or below a root, and registers it as a key of notation.
func (w *workshop) notary(name, cn string, chained bool, from, until time.Time) error {
	signer, err := generate("p256")
	if err != nil {
		return err
	}
	t := &x509.Certificate{
		Subject:  pkix.Name{CommonName: cn, Organization: []string{"Notary"}, Country: []string{"US"}, Province: []string{"WA"}, Locality: []string{"Seattle"}},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		BasicConstraintsValid: true, NotBefore: from, NotAfter: until, SerialNumber: serial(),
	}
	parent, parentKey := t, signer
	var chain []*x509.Certificate
	if chained {
		if parentKey, err = generate("p256"); err != nil {
			return err
		}
		root := &x509.Certificate{
			Subject:  pkix.Name{CommonName: cn + " root", Organization: []string{"Notary"}, Country: []string{"US"}, Province: []string{"WA"}},
			KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true, NotBefore: from.Add(-time.Hour), NotAfter: until, SerialNumber: serial(),
		}
		if parent, err = issue(root, root, parentKey.Public(), parentKey); err != nil {
			return err
		}
		chain = []*x509.Certificate{parent}
	}
	leaf, err := issue(t, parent, signer.Public(), parentKey)
	if err != nil {
		return err
	}
	keyPEM, err := privatePEM(signer)
	if err != nil {
		return err
	}
	keyFile, certFile := w.file("notary-"+name+".key"), w.file("notary-"+name+".crt")
	if err := errors.Join(os.WriteFile(keyFile, keyPEM, 0o600), os.WriteFile(certFile, certificatePEM(append([]*x509.Certificate{leaf}, chain...)...), 0o600)); err != nil {
		return err
	}
	w.certs[name] = string(certificatePEM(append(chain, leaf)[:1]...)) // the certificate to trust: the root, or the leaf if it is alone
	return w.addNotationKey(name, keyFile, certFile)
}

// addNotationKey adds a row to notation's list of keys.
func (w *workshop) addNotationKey(name, keyFile, certFile string) error {
	path := filepath.Join(w.dir, "notation", "signingkeys.json")
	list := struct {
		Keys []map[string]string `json:"keys"`
	}{}
	if b, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(b, &list); err != nil {
			return err
		}
	}
	list.Keys = append(list.Keys, map[string]string{"name": name, "keyPath": keyFile, "certPath": certFile})
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, b, 0o600))
}

// notation signs an image or another artefact in its repository.
func (w *workshop) notation(img image, key string, flags ...string) error {
	return w.run("notation", nil, append(append([]string{"sign", "--key", key, "--force-referrers-tag=false"}, flags...), img.String())...)
}

// attach attaches a document to an image as a referrer and returns its digest.
func (w *workshop) attach(img image, artifactType string, document any) (image, error) {
	b, err := json.Marshal(document)
	if err != nil {
		return image{}, err
	}
	if err := os.WriteFile(w.file("document.json"), b, 0o600); err != nil {
		return image{}, err
	}
	if !strings.Contains(artifactType, "/") {
		return w.attachPlain(img, artifactType, b)
	}
	before := len(w.registries.referrers(img.Repository, img.Digest))
	err = w.run("oras", nil, "attach", "--disable-path-validation", "--distribution-spec=v1.1-referrers-api", "--artifact-type", artifactType, img.String(), "document.json:application/json")
	if err != nil {
		return image{}, err
	}
	after := w.registries.referrers(img.Repository, img.Digest)
	if len(after) != before+1 {
		return image{}, fmt.Errorf("oras attached %d documents", len(after)-before)
	}
	return image{Repository: img.Repository, Digest: after[before].Digest}, nil
}

// attachPlain attaches a document whose type oras rejects, since it is not a media type; older clients wrote such types.
func (w *workshop) attachPlain(img image, artifactType string, document []byte) (image, error) {
	config, err1 := w.blob(img.Repository, "application/vnd.oci.empty.v1+json", []byte("{}"))
	layer, err2 := w.blob(img.Repository, "application/json", document)
	subject, err3 := w.registries.find(img.Repository, img.Digest)
	if err := errors.Join(err1, err2, err3); err != nil {
		return image{}, err
	}
	d, err := w.manifest(img.Repository, "", manifestType, map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "artifactType": artifactType, "config": config, "layers": []descriptor{layer},
		"subject": descriptor{MediaType: subject.mediaType, Digest: subject.digest, Size: int64(len(subject.body))},
	})
	return image{Repository: img.Repository, Digest: d.Digest}, err
}
