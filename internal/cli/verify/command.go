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

	"github.com/ephor-dev/ephor/internal/cli/remote"
	"github.com/ephor-dev/ephor/internal/cli/terminal"
	"github.com/ephor-dev/ephor/internal/sigverify"
	"github.com/ephor-dev/ephor/internal/sigverify/notary"
	"github.com/ephor-dev/ephor/internal/sigverify/trust"
	"github.com/ephor-dev/ephor/internal/world"
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
		Short: "Say who signed an image, and why each signature counts or not",
		Long: "Verify finds the signatures of an image (layers below the tags .sig and .att, and Sigstore bundles that refer to it), and says\n" +
			"of each who made it and whether it satisfies the signer that the flags describe. Policies decide with the same verifier.\n" +
			"With --type it looks at the statements of that type instead. With --bundle it verifies one bundle about a file, and asks no registry;\n" +
			"with --format Notary it verifies signatures of Notary, or with --bundle one envelope.\n\n" +
			"The exit code is 0 when some signature satisfies, 1 when none does or that cannot be found out, and 2 after a mistake in the flags or their files.",
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
	f.StringVar(&o.bundle, "bundle", "", "file with a Sigstore bundle, or with an envelope of Notary, instead of an image")
	f.StringVar(&o.artifact, "artifact", "", "what the bundle is about: a file, or its digest as sha256:⟨hex⟩")
	f.StringVar(&o.key, "key", "", "public key of the signer: a file with PEM")
	f.StringVar(&o.certificate, "certificate", "", "certificate of the signer: a file with PEM")
	f.StringVar(&o.chain, "certificate-chain", "", "certificates that vouch for the signer: a file with PEM")
	f.StringVar(&o.subject, "certificate-identity", "", "identity of the signer in its certificate; wildcards are allowed")
	f.StringVar(&o.subjectRegExp, "certificate-identity-regexp", "", "the same as a regular expression")
	f.StringVar(&o.issuer, "certificate-oidc-issuer", "", "issuer of the identity; wildcards are allowed")
	f.StringVar(&o.issuerRegExp, "certificate-oidc-issuer-regexp", "", "the same as a regular expression")
	f.StringToStringVar(&o.extensions, "certificate-extension", nil, "extensions that the certificate has to have, as name=wildcard (additionalExtensions of a policy)")
	f.StringToStringVarP(&o.annotations, "annotation", "a", nil, "annotations that the signature has to have, as key=value")
	f.StringVar(&o.algorithm, "signature-algorithm", "", "hash of signatures by keys: sha224, sha256, sha384 or sha512")
	f.StringVar(&o.kind, "type", "", "look at statements with this predicate type")
	f.StringVar(&o.format, "format", sigverify.Cosign, "Cosign for layers and bundles, SigstoreBundle for bundles only, Notary for signatures of the Notary Project")
	terminal.Choices(cmd, "format", sigverify.Cosign, sigverify.Bundle, sigverify.Notary)
	f.StringVar(&o.repository, "repository", "", "repository that holds the signatures, if it is not that of the image")
	f.StringVar(&o.tagPrefix, "attachment-tag-prefix", "", "prefix of the tags of signatures")
	f.StringVar(&o.trustedRoot, "trusted-root", "", "file with a trusted root in JSON: the keys of the logs and authorities that count")
	f.StringVar(&o.roots, "ca-roots", "", "root certificates of identities: a file with PEM")
	f.StringVar(&o.rekorURL, "rekor-url", "", "transparency log that is searched for signatures that were stored without their entry")
	f.StringVar(&o.rekorKey, "rekor-public-key", "", "key of the transparency log: a file with PEM")
	f.StringVar(&o.ctKey, "ctlog-public-key", "", "key of the log of certificates: a file with PEM")
	f.StringVar(&o.stampChain, "timestamp-certificate-chain", "", "certificates of the timestamp authority: a file with PEM")
	f.BoolVar(&o.ignoreTlog, "insecure-ignore-tlog", false, "do without an entry in a transparency log")
	f.BoolVar(&o.ignoreSCT, "insecure-ignore-sct", false, "do without an entry in a log of certificates")
	f.BoolVar(&o.offline, "offline", false, "connect to registries only: trust what --trusted-root or the release holds, search no log, and do not check whether certificates are revoked")
	f.BoolVar(&o.insecure, "allow-insecure-registry", false, "ask registries that have no TLS, or a certificate that is not trusted")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "longest time that all of it takes")
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
	f, err := os.Open(name)
	if err != nil {
		if digest, malformed := v1.NewHash(name); malformed == nil && errors.Is(err, fs.ErrNotExist) {
			return sigverify.File{Digest: digest, Size: -1}, nil
		}
		return of, err
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
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is longer than %d bytes", name, maxFile)
	}
	return string(text), err
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
