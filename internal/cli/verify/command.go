package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/bounded"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/sigverify/notary"
	"ephor.invalid/ephor/internal/sigverify/trust"
	"ephor.invalid/ephor/internal/world"
)

// options are the flags of verify.
type options struct {
	bundle, artifact string

	key, certificate, chain             string
	subject, subjectRegExp              string
	issuer, issuerRegExp                string
	roots, rekorKey, ctKey, stampChain  string
	trustedRoot, rekorURL, algorithm    string
	annotations, extensions             map[string]string
	ignoreTlog, ignoreSCT               bool
	format, kind, repository, tagPrefix string
	insecure, offline                   bool
	output                              string
	timeout                             time.Duration
}

// New returns the command `ephor verify`.
func New() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "verify IMAGE",
		Short: "Show who signed an image, and why each signature is accepted or not",
		Long: "Verify finds the signatures of an image (layers under the tags .sig and .att, and Sigstore bundles that refer to it), and shows\n" +
			"for each who made it and whether it satisfies the signer that the flags describe. Policies use the same verifier. With --type it\n" +
			"verifies attestations of that type instead. With --bundle it verifies one bundle for a file, and connects to no registry. With\n" +
			"--format Notary it verifies Notary signatures or, with --bundle, one Notary envelope.\n\n" +
			"The exit code is 0 when a signature satisfies the signer, 1 when none does or the check fails, and 2 when the flags or their files are invalid.",
		Example: "  ephor verify ghcr.io/team/app:1 --key cosign.pub\n" +
			"  ephor verify ghcr.io/team/app:1 --certificate-identity 'https://github.com/team/*' --certificate-oidc-issuer https://token.actions.githubusercontent.com\n" +
			"  ephor verify ghcr.io/team/app:1 --key cosign.pub --type https://slsa.dev/provenance/v1 -o json\n" +
			"  ephor verify --bundle app.sigstore.json --artifact app.tar.gz --key cosign.pub --insecure-ignore-tlog\n" +
			"  ephor verify --bundle app.sigstore.json --artifact sha256:8e7e… --trusted-root trusted_root.json \\\n" +
			"    --certificate-identity release@team.example --certificate-oidc-issuer https://accounts.team.example\n" +
			"  ephor verify --format Notary ghcr.io/team/app:1 --certificate-chain ca.pem",
		Args: func(cmd *cobra.Command, args []string) error {
			return terminal.Mistake(cobra.MaximumNArgs(1)(cmd, args))
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, strings.Join(args, "")) },
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return terminal.Mistake(cmd.Root().FlagErrorFunc()(cmd, err))
	})
	f := cmd.Flags()
	f.StringVar(&o.bundle, "bundle", "", "file with a Sigstore bundle or a Notary envelope to verify instead of an image")
	f.StringVar(&o.artifact, "artifact", "", "artifact that the bundle signs: a file, or its digest as sha256:⟨hex⟩")
	f.StringVar(&o.key, "key", "", "PEM file with the public key of the signer")
	f.StringVar(&o.certificate, "certificate", "", "PEM file with the certificate of the signer")
	f.StringVar(&o.chain, "certificate-chain", "", "PEM file with the certificates that issued the signer's certificate")
	f.StringVar(&o.subject, "certificate-identity", "", "identity of the signer in its certificate; wildcards are allowed")
	f.StringVar(&o.subjectRegExp, "certificate-identity-regexp", "", "identity of the signer as a regular expression")
	f.StringVar(&o.issuer, "certificate-oidc-issuer", "", "issuer of the identity; wildcards are allowed")
	f.StringVar(&o.issuerRegExp, "certificate-oidc-issuer-regexp", "", "issuer of the identity as a regular expression")
	f.StringToStringVar(&o.extensions, "certificate-extension", nil, "required certificate extensions, as name=wildcard (additionalExtensions of a policy)")
	f.StringToStringVarP(&o.annotations, "annotation", "a", nil, "required annotations of the signature, as key=value")
	f.StringVar(&o.algorithm, "signature-algorithm", "", "hash algorithm of signatures made with keys: sha224, sha256, sha384 or sha512")
	f.StringVar(&o.kind, "type", "", "verify attestations with this predicate type instead of signatures")
	f.StringVar(&o.format, "format", sigverify.Cosign, "signature format: Cosign for layers and bundles, SigstoreBundle for bundles only, Notary for Notary Project signatures")
	terminal.Choices(cmd, "format", sigverify.Cosign, sigverify.Bundle, sigverify.Notary)
	f.StringVar(&o.repository, "repository", "", "repository that holds the signatures; by default that of the image")
	f.StringVar(&o.tagPrefix, "attachment-tag-prefix", "", "prefix of signature tags")
	f.StringVar(&o.trustedRoot, "trusted-root", "", "JSON file with a trusted root: the keys of the trusted logs and authorities")
	f.StringVar(&o.roots, "ca-roots", "", "PEM file with the root certificates of identities")
	f.StringVar(&o.rekorURL, "rekor-url", "", "transparency log to search for signatures that are stored without their log entry")
	f.StringVar(&o.rekorKey, "rekor-public-key", "", "PEM file with the key of the transparency log")
	f.StringVar(&o.ctKey, "ctlog-public-key", "", "PEM file with the key of the certificate transparency log")
	f.StringVar(&o.stampChain, "timestamp-certificate-chain", "", "PEM file with the certificates of the timestamp authority")
	f.BoolVar(&o.ignoreTlog, "insecure-ignore-tlog", false, "do not require an entry in a transparency log")
	f.BoolVar(&o.ignoreSCT, "insecure-ignore-sct", false, "do not require an entry in a certificate transparency log")
	f.BoolVar(&o.offline, "offline", false, "connect only to registries: use the trusted root of --trusted-root or of the release, do not search logs, and do not check certificates for revocation")
	f.BoolVar(&o.insecure, "allow-insecure-registry", false, "allow registries without TLS or with an untrusted certificate")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "timeout of the whole verification")
	f.StringVarP(&o.output, "output", "o", "table", "table or json")
	terminal.Choices(cmd, "output", "table", "json")
	return cmd
}

// result is the output of the command.
type result struct {
	Image    string              `json:"image,omitempty"`
	Digest   string              `json:"digest"`
	Verified bool                `json:"verified"`
	Findings []sigverify.Finding `json:"signatures"`
}

func (o *options) run(cmd *cobra.Command, image string) error {
	if err := o.check(image); err != nil {
		return terminal.Mistake(err)
	}
	attestor, err := o.attestor()
	if err != nil {
		return terminal.Mistake(err)
	}
	verifier, err := remote.Verifier(o.offline)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	if err := verifier.Check(ctx, attestor); err != nil {
		return terminal.Mistake(err)
	}
	out := result{Image: image}
	if o.bundle != "" {
		err = o.examineFile(ctx, verifier, attestor, &out)
	} else {
		out.Digest, out.Findings, err = verifier.Examine(ctx, world.SignatureRequest{
			Image: image, Format: o.format, Attestor: attestor, Type: o.kind, Repository: o.repository, TagPrefix: o.tagPrefix,
			Registry: world.ImageRequest{Insecure: o.insecure},
		})
	}
	if err != nil {
		return err
	}
	for _, f := range out.Findings {
		out.Verified = out.Verified || f.Accepted
	}
	w := terminal.Buffered(cmd.OutOrStdout())
	if o.output == "json" {
		err = terminal.WriteJSON(w, out)
	} else {
		write(w, &out)
	}
	if err == nil {
		err = w.Flush()
	}
	if err == nil && !out.Verified {
		return terminal.End(cmd, 1)
	}
	return err
}

// check reports invalid flags.
func (o *options) check(image string) error {
	switch {
	case (image != "") == (o.bundle != ""):
		return errors.New("give an IMAGE, or --bundle with --artifact")
	case (o.bundle == "") != (o.artifact == ""):
		return errors.New("--bundle and --artifact go together")
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("invalid output %q, expected table or json", o.output)
	case o.format != sigverify.Cosign && o.format != sigverify.Bundle && o.format != sigverify.Notary:
		return fmt.Errorf("invalid format %q, expected Cosign, SigstoreBundle or Notary", o.format)
	case o.algorithm != "" && !slices.Contains([]string{"sha224", "sha256", "sha384", "sha512"}, o.algorithm):
		return fmt.Errorf("invalid signature algorithm %q, expected sha224, sha256, sha384 or sha512", o.algorithm)
	case o.format == sigverify.Notary && o.certificate+o.chain == "":
		return errors.New("a signature of Notary needs --certificate or --certificate-chain")
	case o.format == sigverify.Notary && o.bundle != "" && o.kind != "":
		return errors.New("an envelope of Notary has no --type")
	}
	return nil
}

// examineFile verifies a detached signature of a file.
func (o *options) examineFile(ctx context.Context, v *sigverify.Verifier, a *world.Attestor, out *result) error {
	text, err := read(o.bundle)
	if err != nil {
		return terminal.Mistake(err)
	}
	of, err := artifact(o.artifact)
	if err != nil {
		return terminal.Mistake(err)
	}
	var found sigverify.Finding
	if o.format == sigverify.Notary {
		var envelope sigverify.NotaryArtefact
		if envelope, err = notary.Open([]byte(text)); err != nil {
			found = sigverify.Finding{Kind: "signature", Reason: err.Error()}
		} else if found, err = v.ExamineEnvelope(ctx, envelope, of, a); err != nil {
			return err
		}
	} else if found, err = v.ExamineBundle(ctx, []byte(text), of, o.kind, a); err != nil {
		return err
	}
	found.Place = o.bundle
	out.Digest, out.Findings = of.Digest.String(), []sigverify.Finding{found}
	return nil
}

// artifact returns the file of that name. If there is none, it returns the artifact with that digest.
func artifact(name string) (of sigverify.File, err error) {
	f, err := terminal.Open(name, nil)
	if err != nil {
		if digest, malformed := v1.NewHash(name); malformed == nil && errors.Is(err, fs.ErrNotExist) {
			return sigverify.File{Digest: digest, Size: -1}, nil
		}
		return of, fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	of.Digest, of.Size, err = v1.SHA256(f)
	of.Content = func() ([]byte, error) { return os.ReadFile(name) }
	return of, err
}

// attestor returns the attestor that the flags describe.
func (o *options) attestor() (*world.Attestor, error) {
	a := &world.Attestor{
		Annotations: o.annotations, Algorithm: o.algorithm,
		Rekor: world.Rekor{URL: o.rekorURL, Ignore: o.ignoreTlog}, CTLog: world.CTLog{Ignore: o.ignoreSCT},
	}
	var key, certificate, chain, roots string
	for _, f := range []struct {
		file string
		to   *string
	}{
		{o.key, &key}, {o.certificate, &certificate}, {o.chain, &chain}, {o.roots, &roots}, {o.trustedRoot, &a.Trust.TrustedRoot},
		{o.rekorKey, &a.Rekor.PublicKey}, {o.ctKey, &a.CTLog.PublicKey}, {o.stampChain, &a.CTLog.TSACertChain},
	} {
		if f.file == "" {
			continue
		}
		var err error
		if *f.to, err = read(f.file); err != nil {
			return nil, err
		}
	}
	if a.Trust.TrustedRoot != "" {
		if err := trust.Check([]byte(a.Trust.TrustedRoot)); err != nil {
			return nil, err
		}
	}
	named := o.subject+o.subjectRegExp+o.issuer+o.issuerRegExp != "" || len(o.extensions) > 0
	given := 0
	for _, is := range []bool{key != "", certificate+chain != "", named} {
		if is {
			given++
		}
	}
	if given != 1 {
		return nil, errors.New("name the signer: with --key, with --certificate or --certificate-chain, or with --certificate-identity and --certificate-oidc-issuer")
	}
	switch {
	case key != "":
		a.Key = &world.KeyAttestor{PublicKey: key}
	case !named:
		a.Certificate = &world.CertificateAttestor{Certificate: certificate, Chain: chain}
	case o.subject+o.subjectRegExp == "" || o.issuer+o.issuerRegExp == "":
		return nil, errors.New("an identity needs a subject and an issuer: anyone can get a certificate from the public authority")
	default:
		a.Keyless = &world.KeylessAttestor{
			Subject: o.subject, SubjectRegExp: o.subjectRegExp, Issuer: o.issuer, IssuerRegExp: o.issuerRegExp, Roots: roots, Extensions: o.extensions,
		}
	}
	return a, nil
}

// maxFile limits the size of keys, certificates and bundles, in bytes.
const maxFile = 10_000_000

func read(name string) (string, error) {
	f, err := terminal.Open(name, nil)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	text, err := bounded.Read(f, maxFile)
	if err == nil && strings.TrimSpace(string(text)) == "" {
		err = errors.New("the file is empty") // an empty key or root would count as not given, and another one be trusted
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(text), nil
}

// write prints a result for people.
func write(w io.Writer, r *result) {
	about := r.Digest
	if r.Image != "" {
		about = terminal.Legible(r.Image) + " is " + r.Digest
	}
	fmt.Fprintln(w, about)
	accepted := 0
	for _, f := range r.Findings {
		word := "refused"
		switch {
		case f.Accepted:
			word = "accepted"
			accepted++
		case f.Unknown:
			word = "unknown"
		}
		fmt.Fprintf(w, "\n%s: %s %s\n", word, f.Kind, terminal.Legible(f.Place))
		line := func(name, value string) {
			if value != "" {
				fmt.Fprintf(w, "  %-8s %s\n", name, strings.ReplaceAll(terminal.Legible(value), "\n", "\n           "))
			}
		}
		line("type", f.Type)
		if len(f.Subjects) == 0 && f.Issuer == "" {
			line("signer", "a key")
			line("key", f.Key)
		} else {
			line("signer", strings.Join(f.Subjects, ", "))
			line("issuer", f.Issuer)
		}
		for _, at := range f.Logged {
			line("logged", at.Format(time.RFC3339))
		}
		line("because", f.Reason)
	}
	if len(r.Findings) == 0 {
		fmt.Fprintln(w, "\nno signatures found")
		return
	}
	fmt.Fprintf(w, "\n%d of %s satisfied\n", accepted, terminal.Counted(len(r.Findings), "signature", "signatures"))
}
