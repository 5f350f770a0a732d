package main

import (
	"errors"
	"fmt"
	"time"
)

// repository contains our images; other contains signatures of images in repository.
const (
	repository      = "registry.ephor.test/app"
	otherRepository = "signatures.ephor.test/app"
)

// issuer and workflow are those of GitHub, the most frequent ones in policies.
const (
	issuer   = "https://token.actions.githubusercontent.com"
	workflow = "https://github.com/ephor-test/app/.github/workflows/release.yaml@refs/tags/v1"
)

// github returns the identity of a workflow of GitHub.
func github(uri string) identity {
	return identity{uri: uri, issuer: issuer, extensions: map[int]string{
		2: "push", 3: "0123456789abcdef0123456789abcdef01234567", 4: "release", 5: "ephor-test/app", 6: "refs/tags/v1",
		9: uri, 11: "github-hosted", 12: "https://github.com/ephor-test/app", 14: "refs/tags/v1", 20: "push",
	}}
}

func email(address string) identity {
	return identity{email: address, issuer: "https://accounts.ephor.test"}
}

// makeImages creates all images, one after the other.
func (w *workshop) makeImages() error {
	for _, step := range []struct {
		name string
		make func() error
	}{
		{"keys", w.keyed}, {"certificates", w.certified}, {"attestations", w.attested}, {"bundles", w.bundled}, {"notary", w.notarySigned}, {"suite", w.suiteImages},
	} {
		if err := step.make(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("  %s: %d images so far\n", step.name, len(w.images))
	}
	return nil
}

// keyed creates images that keys sign, with signatures in tags that end in .sig.
func (w *workshop) keyed() error {
	if _, err := w.push("unsigned", repository, "unsigned", "no signature"); err != nil {
		return err
	}
	for _, kind := range []string{"p256", "p384", "p521", "rsa2048", "rsa4096", "ed25519"} {
		img, err := w.push("key-"+kind, repository, "key-"+kind, ".sig by the key "+kind)
		if err != nil {
			return err
		}
		k, err := w.key(kind, kind)
		if err != nil {
			return err
		}
		if err := w.cosign("cosign2", "sign", img, k); err != nil {
			return err
		}
	}
	p256, p384 := w.keys["p256"], w.keys["p384"]
	if _, err := w.key("second", "p256"); err != nil {
		return err
	}
	if _, err := w.key("stranger", "p256"); err != nil { // this key signs nothing
		return err
	}
	for _, c := range []struct {
		name, about string
		sign        [][]string // flags of each signature
		by          []*key
	}{
		{"annotated", ".sig by p256 with annotations env=prod and team=blue", [][]string{{"--annotations=env=prod", "--annotations=team=blue"}}, []*key{p256}},
		{"two-keys", ".sig by p256 and by p384", [][]string{nil, nil}, []*key{p256, p384}},
		{"two-keys-annotated", ".sig by p256 with env=dev and by p384 with env=prod", [][]string{{"--annotations=env=dev"}, {"--annotations=env=prod"}}, []*key{p256, p384}},
		{"key-log", ".sig by p256, with an entry of the log", [][]string{{w.rekor()}}, []*key{p256}},
		{"key-log-second", ".sig by second, with an entry of the log", [][]string{{w.rekor()}}, []*key{w.keys["second"]}},
		{"key-tsa", ".sig by p256, with a timestamp", [][]string{{w.tsa()}}, []*key{p256}},
		{"key-log-tsa", ".sig by p256, with an entry of the log and a timestamp", [][]string{{w.rekor(), w.tsa()}}, []*key{p256}},
		{"key-referrers", "signature by p256 as an OCI 1.1 referrer", [][]string{{"--registry-referrers-mode=oci-1-1", "env:COSIGN_EXPERIMENTAL=1"}}, []*key{p256}},
		{"key-elsewhere", ".sig by p256 in " + otherRepository, [][]string{{"env:COSIGN_REPOSITORY=" + otherRepository}}, []*key{p256}},
	} {
		img, err := w.push(c.name, repository, c.name, c.about)
		if err != nil {
			return err
		}
		for i, flags := range c.sign {
			if err := w.cosign("cosign2", "sign", img, c.by[i], flags...); err != nil {
				return err
			}
		}
	}
	img, err := w.push("key-cosign3", repository, "key-cosign3", ".sig by p256, made by cosign 3")
	if err != nil {
		return err
	}
	if err := w.cosign("cosign3", "sign", img, p256, "--new-bundle-format=false"); err != nil {
		return err
	}
	index, err := w.pushIndex("index", repository, "index", "an index with .sig by p256; its children have none", spec{}, "amd64", "arm64")
	if err != nil {
		return err
	}
	if err := w.cosign("cosign2", "sign", index, p256); err != nil {
		return err
	}
	if _, err := w.pushIndex("index-unsigned", repository, "index-unsigned", "an index without .sig; its child for amd64 has one by p256", spec{}, "amd64", "arm64"); err != nil {
		return err
	}
	return w.cosign("cosign2", "sign", w.images["index-unsigned/amd64"], p256)
}

// certified creates images whose signatures have certificates.
func (w *workshop) certified() error {
	day := 24 * time.Hour
	for _, c := range []struct {
		name, about string
		ids         []identity
		authority   *authority
		flags       [][]string
	}{
		{"keyless-email", "certificate for someone@ephor.test", []identity{email("someone@ephor.test")}, nil, nil},
		{"keyless-uri", "certificate for a workflow of GitHub", []identity{github(workflow)}, nil, nil},
		{"keyless-dns", "certificate for build.ephor.test", []identity{{dns: "build.ephor.test", issuer: issuer}}, nil, nil},
		{"keyless-username", "certificate for the user name someone!ephor.test", []identity{{username: "someone!ephor.test", issuer: issuer}}, nil, nil},
		{"keyless-nosan", "certificate without a name of its subject", []identity{{issuer: issuer}}, nil, nil},
		{"keyless-issuer-v1", "certificate with the issuer in extension 1.1 only", []identity{{email: "someone@ephor.test", issuer: "https://accounts.ephor.test", noIssuerV2: true}}, nil, nil},
		{"keyless-issuer-v2", "certificate with the issuer in extension 1.8 only", []identity{{email: "someone@ephor.test", issuerV2: "https://accounts.ephor.test"}}, nil, nil},
		{"keyless-issuers", "certificate with different issuers in extensions 1.1 and 1.8", []identity{{email: "someone@ephor.test", issuer: "https://accounts.ephor.test", issuerV2: "https://elsewhere.ephor.test"}}, nil, nil},
		{"keyless-expired", "certificate that expired an hour before the entry of the log", []identity{{email: "someone@ephor.test", issuer: "https://accounts.ephor.test", age: time.Hour}}, nil, nil},
		{"keyless-early", "certificate that is valid from the day after the entry of the log, for ten years", []identity{{email: "someone@ephor.test", issuer: "https://accounts.ephor.test", age: -day, lifetime: tenYears}}, nil, nil},
		{"keyless-nosct", "certificate without a timestamp of a certificate log", []identity{{email: "someone@ephor.test", issuer: "https://accounts.ephor.test", noSCT: true}}, nil, nil},
		{"keyless-unknownct", "certificate with a timestamp of an unknown certificate log", []identity{{email: "someone@ephor.test", issuer: "https://accounts.ephor.test", unknownLog: true}}, nil, nil},
		{"keyless-other", "certificate of another authority", []identity{email("someone@ephor.test")}, w.other, nil},
		{"keyless-nolog", "certificate, but neither an entry of the log nor a timestamp", []identity{email("someone@ephor.test")}, nil, [][]string{{}}},
		{"keyless-tsa", "certificate and timestamp, no entry of the log", []identity{email("someone@ephor.test")}, nil, [][]string{{w.tsa()}}},
		{"keyless-log-tsa", "certificate, timestamp and entry of the log", []identity{email("someone@ephor.test")}, nil, [][]string{{w.tsa(), w.rekor()}}},
		{"keyless-two", "certificates for someone@ephor.test with annotation env=dev, and for another@ephor.test with env=prod",
			[]identity{email("someone@ephor.test"), email("another@ephor.test")}, nil, [][]string{{w.rekor(), "--annotations=env=dev"}, {w.rekor(), "--annotations=env=prod"}}},
		{"keyless-referrers", "certificate for someone@ephor.test, as an OCI 1.1 referrer", []identity{email("someone@ephor.test")}, nil,
			[][]string{{w.rekor(), "--registry-referrers-mode=oci-1-1", "env:COSIGN_EXPERIMENTAL=1"}}},
	} {
		img, err := w.push(c.name, repository, c.name, c.about)
		if err != nil {
			return err
		}
		a := w.authority
		if c.authority != nil {
			a = c.authority
		}
		for i, id := range c.ids {
			leaf, err := w.keyless(fmt.Sprint(c.name, "-", i), a, id)
			if err != nil {
				return err
			}
			flags := []string{w.rekor()}
			if c.flags != nil {
				flags = c.flags[i]
			}
			if err := w.cosign("cosign2", "sign", img, leaf, flags...); err != nil {
				return err
			}
		}
	}
	return nil
}

// The predicates of attestations.
var (
	provenance = map[string]any{
		"builder": map[string]any{"id": "https://github.com/ephor-test/builder@v1"}, "buildType": "https://ephor.test/build/v1",
		"invocation": map[string]any{"configSource": map[string]any{"uri": "git+https://github.com/ephor-test/app@refs/tags/v1", "entryPoint": "release.yaml"}},
	}
	provenance1 = map[string]any{
		"buildDefinition": map[string]any{"buildType": "https://ephor.test/build/v1", "externalParameters": map[string]any{"ref": "refs/tags/v1"}},
		"runDetails":      map[string]any{"builder": map[string]any{"id": "https://github.com/ephor-test/builder@v1"}},
	}
	vulnerabilities = map[string]any{
		"invocation": map[string]any{"uri": "https://github.com/ephor-test/app/actions/runs/1", "producer_id": "ephor-test"},
		"scanner": map[string]any{"uri": "https://scanner.ephor.test", "version": "1.0", "db": map[string]any{"uri": "", "version": ""},
			"result": map[string]any{"Results": []any{map[string]any{"Vulnerabilities": []any{}}}}},
		"metadata": map[string]any{"scanStartedOn": "2026-01-01T00:00:00Z", "scanFinishedOn": "2026-01-01T00:01:00Z"},
	}
	review = map[string]any{"reviewed": true, "by": []any{"a", "b"}}
)

const reviewType = "https://ephor.test/review/v1"

// attest attests a predicate about an image.
func (w *workshop) attest(program string, img image, by any, typ string, predicate any, flags ...string) error {
	f, err := w.predicate(typ, predicate)
	if err != nil {
		return err
	}
	return w.cosign(program, "attest", img, by, append(f, flags...)...)
}

// attested creates images with attestations, in tags that end in .att.
func (w *workshop) attested() error {
	type attestation struct {
		by        any
		typ       string
		predicate any
		flags     []string
	}
	p256, p384 := w.keys["p256"], w.keys["p384"]
	someone, err1 := w.keyless("att-someone", w.authority, email("someone@ephor.test"))
	another, err2 := w.keyless("att-another", w.authority, email("another@ephor.test"))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	logged := []string{w.rekor()}
	for _, c := range []struct {
		name, about string
		list        []attestation
	}{
		{"att-provenance", ".att by p256: provenance 0.2", []attestation{{p256, "slsaprovenance", provenance, nil}}},
		{"att-vuln", ".att by p256: a scan for vulnerabilities", []attestation{{p256, "vuln", vulnerabilities, nil}}},
		{"att-review", ".att by p256: type " + reviewType, []attestation{{p256, reviewType, review, nil}}},
		{"att-custom", ".att by p256: cosign's type custom", []attestation{{p256, "custom", review, nil}}},
		{"att-two-types", ".att by p256: provenance 0.2, and " + reviewType + " by p384", []attestation{{p256, "slsaprovenance", provenance, nil}, {p384, reviewType, review, nil}}},
		{"att-two-signers", ".att of type " + reviewType + " by p256 (reviewed: true) and by p384 (reviewed: false)",
			[]attestation{{p256, reviewType, review, nil}, {p384, reviewType, map[string]any{"reviewed": false}, nil}}},
		{"att-text", ".att by p256 of cosign's type spdx, whose predicate is a text", []attestation{{p256, "spdx", "only a text", nil}}},
		{"att-log", ".att by p256, with an entry of the log (dsse)", []attestation{{p256, reviewType, review, logged}}},
		{"att-log-intoto", ".att by p256, with an entry of the log (intoto)", []attestation{{p256, reviewType, review, append([]string{"--rekor-entry-type=intoto"}, logged...)}}},
		{"att-keyless", ".att by someone@ephor.test: provenance 0.2", []attestation{{someone, "slsaprovenance", provenance, logged}}},
		{"att-keyless-two", ".att of type " + reviewType + " by someone@ephor.test (reviewed: true) and another@ephor.test (reviewed: false)",
			[]attestation{{someone, reviewType, review, logged}, {another, reviewType, map[string]any{"reviewed": false}, logged}}},
	} {
		img, err := w.push(c.name, repository, c.name, c.about)
		if err != nil {
			return err
		}
		for _, a := range c.list {
			if err := w.attest("cosign2", img, a.by, a.typ, a.predicate, a.flags...); err != nil {
				return err
			}
		}
	}
	return nil
}

// bundled creates images with Sigstore bundles as referrers.
func (w *workshop) bundled() error {
	p256, p384 := w.keys["p256"], w.keys["p384"]
	someone, err1 := w.keyless("bundle-someone", w.authority, email("someone@ephor.test"))
	flow, err2 := w.keyless("bundle-workflow", w.authority, github(workflow))
	nosan, err3 := w.keyless("bundle-nosan", w.authority, identity{issuer: issuer})
	nosct, err4 := w.keyless("bundle-nosct", w.authority, identity{email: "someone@ephor.test", issuer: "https://accounts.ephor.test", noSCT: true})
	other, err5 := w.keyless("bundle-other", w.other, email("someone@ephor.test"))
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	type bundle struct {
		program   string
		by        any
		typ       string // type of an attestation; empty for a signature
		predicate any
		flags     []string
	}
	newFormat := "--new-bundle-format"
	for _, c := range []struct {
		name, about string
		list        []bundle
	}{
		{"bundle-key", "bundle by p256, made by cosign 3", []bundle{{"cosign3", p256, "", nil, nil}}},
		{"bundle-key-annotated", "bundle by p256, made by cosign 3, with annotation env=prod", []bundle{{"cosign3", p256, "", nil, []string{"--annotations=env=prod"}}}},
		{"bundle-key-cosign2", "bundle by p256, made by cosign 2", []bundle{{"cosign2", p256, "", nil, []string{newFormat}}}},
		{"bundle-key-log", "bundle by p256 with an entry of the log", []bundle{{"cosign2", p256, "", nil, []string{newFormat, w.rekor()}}}},
		{"bundle-key-tsa", "bundle by p256 with a timestamp", []bundle{{"cosign3", p256, "", nil, []string{w.tsa()}}}},
		{"bundle-two-keys", "bundles by p256 and by p384", []bundle{{"cosign3", p256, "", nil, nil}, {"cosign3", p384, "", nil, nil}}},
		{"bundle-keyless", "bundle by someone@ephor.test with an entry of the log", []bundle{{"cosign2", someone, "", nil, []string{newFormat, w.rekor()}}}},
		{"bundle-keyless-uri", "bundle by a workflow of GitHub with an entry of the log", []bundle{{"cosign2", flow, "", nil, []string{newFormat, w.rekor()}}}},
		{"bundle-keyless-tsa", "bundle by a workflow of GitHub with a timestamp, not in the log", []bundle{{"cosign2", flow, "", nil, []string{newFormat, w.tsa()}}}},
		{"bundle-keyless-nosan", "bundle whose certificate has no name", []bundle{{"cosign2", nosan, "", nil, []string{newFormat, w.rekor()}}}},
		{"bundle-keyless-nosct", "bundle whose certificate is in no certificate log", []bundle{{"cosign2", nosct, "", nil, []string{newFormat, w.rekor()}}}},
		{"bundle-keyless-other", "bundle with a certificate of another authority", []bundle{{"cosign2", other, "", nil, []string{newFormat, w.rekor()}}}},
		{"bundle-att", "bundle by p256: attestation " + reviewType, []bundle{{"cosign3", p256, reviewType, review, nil}}},
		{"bundle-att-keyless", "bundle by a workflow of GitHub: provenance 1, with an entry of the log", []bundle{{"cosign2", flow, "slsaprovenance1", provenance1, []string{newFormat, w.rekor()}}}},
		{"bundle-att-two", "bundles of type " + reviewType + " by p256 (reviewed: true) and p384 (reviewed: false)",
			[]bundle{{"cosign3", p256, reviewType, review, nil}, {"cosign3", p384, reviewType, map[string]any{"reviewed": false}, nil}}},
		{"bundle-and-sig", "bundle by p384 and .sig by p256", []bundle{{"cosign3", p384, "", nil, nil}, {"cosign2", p256, "", nil, nil}}},
	} {
		img, err := w.push(c.name, repository, c.name, c.about)
		if err != nil {
			return err
		}
		for _, b := range c.list {
			if b.typ == "" {
				err = w.cosign(b.program, "sign", img, b.by, b.flags...)
			} else {
				err = w.attest(b.program, img, b.by, b.typ, b.predicate, b.flags...)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// notarySigned creates images with Notary signatures.
func (w *workshop) notarySigned() error {
	now := time.Now().Add(-time.Hour)
	for _, c := range []struct {
		name    string
		chained bool
		until   time.Time
	}{
		{"notary", false, now.Add(tenYears)}, {"notary-other", false, now.Add(tenYears)},
		{"notary-chain", true, now.Add(tenYears)}, {"notary-brief", true, now.Add(2 * time.Hour)},
	} {
		if err := w.notary(c.name, c.name+".ephor.test", c.chained, now, c.until); err != nil {
			return err
		}
	}
	cose := []string{"--signature-format", "cose"}
	for _, c := range []struct {
		name, about string
		keys        []string
		flags       []string
	}{
		{"notary-jws", "Notary signature (JWS) by notary", []string{"notary"}, nil},
		{"notary-cose", "Notary signature (COSE) by notary", []string{"notary"}, cose},
		{"notary-chain-jws", "Notary signature (JWS) by notary-chain, below a root", []string{"notary-chain"}, nil},
		{"notary-chain-cose", "Notary signature (COSE) by notary-chain, below a root", []string{"notary-chain"}, cose},
		{"notary-other", "Notary signature by notary-other", []string{"notary-other"}, nil},
		{"notary-two", "Notary signatures, first by notary-other and then by notary", []string{"notary-other", "notary"}, nil},
		{"notary-brief", "Notary signature whose certificate was valid for an hour after it", []string{"notary-brief"}, nil},
		{"notary-expiring", "Notary signature by notary that is good for an hour", []string{"notary"}, []string{"--expiry", "1h"}},
	} {
		img, err := w.push(c.name, repository, c.name, c.about)
		if err != nil {
			return err
		}
		for _, k := range c.keys {
			if err := w.notation(img, k, c.flags...); err != nil {
				return err
			}
		}
	}
	sbom := func(name string) map[string]any {
		return map[string]any{"bomFormat": "CycloneDX", "specVersion": "1.5", "serial": name}
	}
	for _, c := range []struct {
		name, about string
		signed      []string // the signers of each document; empty for unsigned
	}{
		{"notary-sbom", "Notary signature by notary; an SBOM that notary signed", []string{"notary"}},
		{"notary-sbom-unsigned", "Notary signature by notary; an SBOM without a signature", []string{""}},
		{"notary-sbom-other", "Notary signature by notary; an SBOM that notary-other signed", []string{"notary-other"}},
		{"notary-sbom-second", "Notary signature by notary; an SBOM without a signature and a second one that notary signed", []string{"", "notary"}},
	} {
		img, err := w.push(c.name, repository, c.name, c.about)
		if err != nil {
			return err
		}
		if err := w.notation(img, "notary"); err != nil {
			return err
		}
		for i, by := range c.signed {
			document, err := w.attach(img, "sbom/cyclone-dx", sbom(fmt.Sprint(c.name, "-", i)))
			if err != nil {
				return err
			}
			if by == "" {
				continue
			}
			if err := w.notation(document, by); err != nil {
				return err
			}
		}
	}
	return nil
}
