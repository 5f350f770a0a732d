package sigverify_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/sigverify/fixture"
	"ephor.invalid/ephor/internal/world"
)

// envPrograms is the environment variable for the folder of the programs that hack/signatures built.
const envPrograms = "EPHOR_SIGNATURE_PROGRAMS"

// differences are the verdicts, by attestor and image, that may differ from those of cosign and notation, with the reason.
var differences = map[string]map[string]string{
	"key p256": {
		"bundle-and-sig": "both forms count; cosign 2 looks at no tag where there is a bundle",
		"bundle-att":     attested, "bundle-att-two": attested,
	},
	"key p384":    {"bundle-att-two": attested},
	"key ed25519": {"key-ed25519": "cosign signs payloads in the form of Ed25519 with a hash, and does not verify that form itself"},

	releaseOf + " of " + actions: {"bundle-att-keyless": attested},

	somebody + " of " + accounts:                  issuers,
	somebody + " of " + accounts + " without SCT": issuers,
}

// attested is the reason why bundles of other types than cosign's own do not count here.
const attested = "an attestation is no signature of the image; `cosign verify` of cosign 3 accepts every bundle"

var issuers = map[string]string{
	"keyless-issuer-v2": "cosign reads the issuer of extension 1.1 only; newer authorities write 1.8 alone",
	"keyless-issuers":   "issuers that contradict each other are refused; cosign takes extension 1.1",
}

// TestTools compares verdicts with those of `cosign verify` and `notation verify` on the same registry, for every image of
// the fixture and all kinds of attestors. It is run by hand: make signatures.
func TestTools(t *testing.T) {
	programs := os.Getenv(envPrograms)
	if programs == "" {
		t.Skipf("%s names no folder with cosign and notation: run `make signatures`", envPrograms)
	}
	f := fixture.Load()
	server := fixture.Start(t, f.Registry())
	client, err := registry.New(registry.Options{Dial: server.Dial, Insecure: true, Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	v, err := sigverify.New(sigverify.Options{Registry: client, Keys: fixtureKeys{}, Trust: fixtureTrust{}, HTTP: noLog{}, Notary: newNotary(t)})
	if err != nil {
		t.Fatal(err)
	}
	j := newTools(t, programs, server)

	keyed := func(name string, log bool, notes ...string) demand {
		d := demand{name: "key " + name, attestor: realKey(name), args: []string{"--key", j.file(name+".pub", f.Keys[name])}}
		if hash := map[string]string{"p384": "sha384", "p521": "sha512"}[name]; hash != "" {
			d.args = append(d.args, "--signature-digest-algorithm="+hash)
		}
		if log {
			d.name, d.attestor = d.name+" and a log entry", logged(d.attestor)
		} else {
			d.args = append(d.args, "--insecure-ignore-tlog=true")
		}
		if len(notes) == 2 {
			d.name, d.attestor = d.name+" and "+notes[0]+"="+notes[1], noted(d.attestor, notes[0], notes[1])
			d.args = append(d.args, "--annotations="+notes[0]+"="+notes[1])
		}
		return d
	}
	identity := func(subject, issuer string, sct bool) demand {
		d := demand{
			name: subject + " of " + issuer, attestor: ignoring(someone(subject, issuer), false, !sct),
			args: []string{"--certificate-identity=" + subject, "--certificate-oidc-issuer=" + issuer},
		}
		if !sct {
			d.name, d.args = d.name+" without SCT", append(d.args, "--insecure-ignore-sct=true")
		}
		return d
	}
	demands := []demand{
		keyed("p256", false), keyed("p256", true), keyed("p384", false), keyed("p521", false), keyed("ed25519", false), keyed("rsa4096", false), keyed("stranger", false),
		keyed("p256", false, "env", "prod"), identity(somebody, accounts, true), identity(somebody, accounts, false), identity(releaseOf, actions, true), identity(somebody, actions, true),
	}
	for _, name := range []string{"notary", "notary-other", "notary-chain"} {
		demands = append(demands, demand{
			name: "certificate " + name, format: sigverify.Notary, certificate: name,
			attestor: &world.Attestor{Certificate: &world.CertificateAttestor{Certificate: f.Certificates[name]}},
		})
	}
	agreed, explained := 0, 0
	for _, d := range demands {
		t.Run(d.name, func(t *testing.T) {
			j.t = t
			for name, img := range f.Images {
				if !strings.HasPrefix(img.Repository, "registry.ephor.test/") || strings.HasPrefix(name, "notary") != (d.format == sigverify.Notary) {
					continue
				}
				// If something could not be determined, such as an entry of an unreachable log, the image is not verified either.
				_, err := v.Verify(t.Context(), world.SignatureRequest{
					Image: img.String(), Format: cmp.Or(d.format, sigverify.Cosign), Attestor: d.attestor, Registry: world.ImageRequest{Insecure: true},
				})
				said := j.verify(d, img)
				switch {
				case (said == nil) == (err == nil):
					agreed++
				case differences[d.name][name] != "":
					explained++
				default:
					t.Errorf("%s (%s)\n  here:  %v\n  there: %v", name, img.About, err, said)
				}
			}
		})
	}
	fmt.Printf("signatures: %d verdicts are the same, %d differ with a reason\n", agreed, explained)
}

// demand is an attestor, for the verifier and for the programs.
type demand struct {
	name        string
	format      string // empty for Cosign
	attestor    *world.Attestor
	args        []string // arguments of cosign
	certificate string   // the certificate that notation trusts
}

// tools runs cosign and notation.
type tools struct {
	t             *testing.T
	programs, dir string
	env           []string
}

func newTools(t *testing.T, programs string, server *fixture.Server) *tools {
	f := fixture.Load()
	j := &tools{t: t, programs: programs, dir: t.TempDir()}
	ca := j.file("proxy.pem", string(fixture.RootsPEM()))
	j.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + j.dir, "XDG_CONFIG_HOME=" + j.dir, "HTTPS_PROXY=http://" + server.Address, "SSL_CERT_FILE=" + ca,
		"SIGSTORE_ROOT_FILE=" + j.file("roots.pem", f.Trust.Intermediates+f.Trust.Roots),
		"SIGSTORE_REKOR_PUBLIC_KEY=" + j.file("rekor.pub", f.Trust.Rekor), "SIGSTORE_CT_LOG_PUBLIC_KEY_FILE=" + j.file("ctfe.pub", f.Trust.CTLog),
	}
	j.file("trusted_root.json", string(f.Trust.TrustedRoot))
	for name, text := range f.Certificates {
		j.file(filepath.Join("notation", "truststore", "x509", "ca", name, name+".pem"), text)
	}
	return j
}

func (j *tools) file(name, text string) string {
	path := filepath.Join(j.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		j.t.Fatal(err)
	}
	return path
}

// verify returns nil if a program verifies the image: either cosign with signatures in tags or cosign with bundles, since a policy accepts
// both.
func (j *tools) verify(d demand, img fixture.Image) error {
	if d.format == sigverify.Notary {
		policy, err := json.Marshal(map[string]any{"version": "1.0", "trustPolicies": []any{map[string]any{
			"name": "test", "registryScopes": []string{"*"}, "signatureVerification": map[string]string{"level": "strict"},
			"trustStores": []string{"ca:" + d.certificate}, "trustedIdentities": []string{"*"},
		}}})
		if err != nil {
			return err
		}
		j.file(filepath.Join("notation", "trustpolicy.json"), string(policy))
		return j.run("notation", "verify", img.String())
	}
	tags := j.run("cosign2", append([]string{"verify", img.String()}, d.args...)...)
	if tags == nil {
		return nil
	}
	if strings.Contains(img.About, "OCI 1.1") {
		return j.run("cosign2", append([]string{"verify", "--experimental-oci11=true", img.String()}, d.args...)...)
	}
	bundles := j.run("cosign3", append([]string{"verify", "--new-bundle-format=true", "--trusted-root=" + filepath.Join(j.dir, "trusted_root.json"), img.String()},
		d.args...)...)
	if bundles == nil {
		return nil
	}
	return fmt.Errorf("%w; %w", tags, bundles)
}

func (j *tools) run(program string, args ...string) error {
	paths, err := filepath.Glob(filepath.Join(j.programs, program+"-v*"))
	if err != nil || len(paths) == 0 {
		j.t.Fatalf("%s has no %s: run `make signatures`", j.programs, program)
	}
	cmd := exec.CommandContext(j.t.Context(), slices.Max(paths), args...)
	cmd.Env, cmd.Dir = j.env, j.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		out = bytes.TrimSpace(out)
		return fmt.Errorf("%s: %w: %s", program, err, out[max(0, len(out)-300):])
	}
	return nil
}
