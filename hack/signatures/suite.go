package main

import (
	"errors"
	"fmt"
	"time"
)

// suite maps values in Kyverno's public tests, for which only the owners of its images can sign, to their replacements.
type suite struct {
	// Keys, Certificates and Digests map values in the tests to names in this list: a PEM block by the first eight digits of
	// the SHA-256 of its base64 text, a digest by its first eight digits.
	Keys         map[string]string `json:"keys"`
	Certificates map[string]string `json:"certificates"`
	Digests      map[string]string `json:"digests"`
}

// The repositories of the public tests.
const (
	testImage    = "ghcr.io/kyverno/test-verify-image"
	zulu         = "ghcr.io/kyverno/zulu"
	rollback     = "ghcr.io/kyverno/test-verify-image-rollback"
	privateImage = "ghcr.io/kyverno/test-verify-image-private"
	podinfo      = "ghcr.io/stefanprodan/podinfo"
	ecr          = "public.ecr.aws/docker/library/"
	hub          = "index.docker.io/"
)

// suiteImages creates the images that the public tests name, with signatures by our own keys, certificates and identities.
func (w *workshop) suiteImages() error {
	w.suite = suite{Keys: map[string]string{}, Certificates: map[string]string{}, Digests: map[string]string{}}
	keys := map[string]*key{}
	for _, id := range []string{"0a93d933", "76a76d86", "48305fbe", "c3ffcbb6", "4adfee99", "66cb4a73", "8a36d6f0"} {
		k, err := w.key("suite-"+id, "p256")
		if err != nil {
			return err
		}
		keys[id], w.suite.Keys[id] = k, "suite-"+id
	}
	now := time.Now().Add(-time.Hour)
	for _, id := range []string{"3aade33e", "ff5af881"} {
		if err := w.notary("suite-"+id, "test", false, now, now.Add(tenYears)); err != nil {
			return err
		}
		w.suite.Certificates[id] = "suite-" + id
	}
	w.certs["suite-d3547d18"], w.suite.Certificates["d3547d18"] = string(w.tsaChain), "suite-d3547d18"

	return errors.Join(w.suitePlain(), w.suiteKeyed(keys), w.suiteNotary(), w.suiteKeyless(), w.suiteBundles())
}

// suitePlain creates images without signatures.
func (w *workshop) suitePlain() error {
	for _, i := range []struct{ repository, tag string }{
		{testImage, "unsigned"}, {testImage, "latest"}, {testImage, "signed-keyless"}, {"registry.k8s.io/pause", "latest"}, {zulu, "unsigned"},
		{ecr + "nginx", "latest"}, {ecr + "nginx", "1.21"}, {ecr + "busybox", "latest"}, {ecr + "busybox", "1.35"}, {ecr + "ubuntu", "bionic"},
		{hub + "library/nginx", "latest"}, {hub + "library/busybox", "latest"},
	} {
		if _, err := w.push("suite/"+i.repository+":"+i.tag, i.repository, i.tag, "no signature"); err != nil {
			return err
		}
	}
	w.suite.Digests["445a99db"] = "suite/" + testImage + ":signed-keyless"
	name := "suite/" + hub + "arm64v8/busybox:latest"
	if _, err := w.pushSpec(name, hub+"arm64v8/busybox", "latest", "no signature; for arm64 only", spec{architecture: "arm64"}); err != nil {
		return err
	}
	w.suite.Digests["fa8dc705"] = name
	buildInfo := map[string]any{"moby.buildkit.buildinfo.v1": "eyJzb3VyY2VzIjpbeyJ0eXBlIjoiZG9ja2VyLWltYWdlIiwicmVmIjoiZGlzdHJvbGVzcyJ9XX0="}
	for _, i := range []struct {
		repository, tag string
		spec            spec
		architectures   []string
	}{
		{"ghcr.io/kyverno/kyverno", "latest", spec{user: "10001", config: buildInfo}, []string{"amd64", "arm64"}},
		{"ghcr.io/kyverno/kyverno", "v1.7.3", spec{user: "10001", config: buildInfo}, []string{"amd64", "arm64"}},
		{hub + "library/solr", "latest", spec{user: "8983"}, []string{"amd64", "arm64"}},
		{hub + "library/solr", "6", spec{user: "8983"}, []string{"amd64"}},
	} {
		if _, err := w.pushIndex("suite/"+i.repository+":"+i.tag, i.repository, i.tag, "no signature; an index", i.spec, i.architectures...); err != nil {
			return err
		}
	}
	return nil
}

// suiteKeyed creates images that keys sign.
func (w *workshop) suiteKeyed(keys map[string]*key) error {
	for _, i := range []struct {
		repository, tag, key string
		flags                []string
	}{
		{testImage, "signed", "0a93d933", nil},
		{testImage, "signed-by-someone-else", "8a36d6f0", nil},
		{testImage, "tsa", "66cb4a73", []string{w.rekor(), w.tsa()}},
		{testImage, "cosign-oci11", "c3ffcbb6", []string{"--registry-referrers-mode=oci-1-1", "env:COSIGN_EXPERIMENTAL=1"}},
		{rollback, "signed-1", "4adfee99", nil},
		{rollback, "signed-2", "4adfee99", nil},
		{podinfo, "6.3.3", "48305fbe", []string{w.rekor()}},
		{podinfo, "6.3.4", "48305fbe", []string{w.rekor()}},
		{podinfo, "6.3.5", "48305fbe", []string{w.rekor()}},
	} {
		img, err := w.push("suite/"+i.repository+":"+i.tag, i.repository, i.tag, ".sig by suite-"+i.key)
		if err != nil {
			return err
		}
		if err := w.cosign("cosign2", "sign", img, keys[i.key], i.flags...); err != nil {
			return err
		}
	}
	w.suite.Digests["0fc1f3b7"], w.suite.Digests["e0cc6dba"] = "suite/"+rollback+":signed-1", "suite/"+rollback+":signed-2"
	return nil
}

// suiteNotary adds Notary signatures, and documents with signatures.
func (w *workshop) suiteNotary() error {
	img := w.images["suite/"+testImage+":signed"]
	private, err := w.push("suite/"+privateImage+":signed", privateImage, "signed", "Notary signature by suite-3aade33e")
	if err != nil {
		return err
	}
	for _, i := range []image{img, private} {
		if err := w.notation(i, "suite-3aade33e"); err != nil {
			return err
		}
	}
	ids := func(field string, names ...string) []any {
		out := []any{}
		for _, n := range names {
			out = append(out, map[string]any{field: n})
		}
		return out
	}
	for _, d := range []struct {
		typ, by  string
		document any
	}{
		{"sbom/cyclone-dx", "suite-3aade33e", map[string]any{
			"bomFormat": "CycloneDX", "specVersion": "1.5", "metadata": map[string]any{"timestamp": "2026-01-02T00:00:00Z"},
			"components": []any{map[string]any{"type": "library", "name": "app", "licenses": []any{map[string]any{"expression": "GPL-3.0"}}}},
		}},
		{"vulnerability-scan", "suite-3aade33e", map[string]any{
			"descriptor": map[string]any{"name": "scanner", "timestamp": "2026-01-01T00:00:00Z"}, "matches": []any{}, "source": map[string]any{"type": "image"},
		}},
		{"trivy/vulnerability", "suite-ff5af881", map[string]any{"Vulnerabilities": ids("VulnerabilityID", "CVE-2026-0001", "CVE-2026-0002")}},
		{"trivy/vulnerability-fail-test", "suite-ff5af881", map[string]any{"Vulnerabilities": ids("VulnerabilityID", "CVE-2026-0001", "CVE-2026-0003")}},
		{"vex/cyclone-dx", "suite-ff5af881", map[string]any{"bomFormat": "CycloneDX", "vulnerabilities": ids("id", "CVE-2026-0001", "CVE-2026-0002")}},
	} {
		document, err := w.attach(img, d.typ, d.document)
		if err != nil {
			return err
		}
		if err := w.notation(document, d.by); err != nil {
			return err
		}
	}
	return nil
}

// suiteKeyless creates images that identities sign.
func (w *workshop) suiteKeyless() error {
	const (
		slsa    = "https://github.com/slsa-framework/slsa-github-generator/.github/workflows/generator_container_slsa3.yml@refs/heads/main"
		scanner = "https://github.com/chipzoller/zulu/.github/workflows/vulnerability-scan.yaml@refs/heads/main"
		release = "https://github.com/chipzoller/zulu/.github/workflows/slsa-generic-keyless.yaml@refs/tags/v0.0.14"
	)
	leaf := map[string]*keyless{}
	for name, id := range map[string]identity{
		"slsa": github(slsa), "scanner": github(scanner), "release": github(release),
		"cosign":  github("https://github.com/sigstore/cosign/.github/workflows/build.yaml@refs/tags/v2"),
		"cluster": {uri: "https://kubernetes.io/namespaces/default/serviceaccounts/default", issuer: "https://kubernetes.default.svc.cluster.local"},
	} {
		var err error
		if leaf[name], err = w.keyless("suite-"+name, w.authority, id); err != nil {
			return err
		}
	}
	for _, i := range []struct{ repository, tag, by string }{
		{zulu, "v0.0.14", "release"}, {zulu, "latest", "release"}, {"ghcr.io/sigstore/cosign/cosign", "latest", "cosign"}, {"ttl.sh/ephor-test", "1h", "cluster"},
	} {
		img, err := w.push("suite/"+i.repository+":"+i.tag, i.repository, i.tag, "certificate of "+i.by)
		if err != nil {
			return err
		}
		if err := w.cosign("cosign2", "sign", img, leaf[i.by], w.rekor()); err != nil {
			return err
		}
	}
	w.suite.Digests["476b21f1"], w.suite.Digests["33a6a55d"] = "suite/"+zulu+":v0.0.14", "suite/ghcr.io/sigstore/cosign/cosign:latest"
	img := w.images["suite/"+zulu+":v0.0.14"]
	built := map[string]any{"builder": map[string]any{"id": slsa}, "buildType": "https://github.com/slsa-framework/slsa-github-generator/container@v1"}
	scan := map[string]any{
		"invocation": map[string]any{"uri": "", "event_id": "", "builder.id": ""},
		"scanner":    map[string]any{"uri": "pkg:github/aquasecurity/trivy@0.34.0", "version": "0.34.0", "db": map[string]any{"uri": "", "version": ""}, "result": map[string]any{}},
		"metadata":   map[string]any{"scanStartedOn": "2026-01-01T00:00:00Z", "scanFinishedOn": "2026-01-01T00:01:00Z"},
	}
	return errors.Join(
		w.attest("cosign2", img, leaf["slsa"], "slsaprovenance", built, w.rekor(), "--rekor-entry-type=intoto"),
		w.attest("cosign2", img, leaf["scanner"], "vuln", scan, w.rekor()),
	)
}

// suiteBundles creates images with bundles.
func (w *workshop) suiteBundles() error {
	predicate := map[string]any{
		"buildDefinition": map[string]any{"buildType": "https://actions.github.io/buildtypes/workflow/v1", "externalParameters": map[string]any{}},
		"runDetails":      map[string]any{"builder": map[string]any{"id": "https://github.com/actions/runner/github-hosted"}},
	}
	for n, i := range []struct{ repository, tag, uri, stamp, digest string }{
		{"ghcr.io/vishal-chdhry/artifact-attestation-example", "artifact-attestation",
			"https://github.com/vishal-chdhry/artifact-attestation-example/.github/workflows/build-attested-image.yaml@refs/heads/main", w.rekor(), ""},
		{"ghcr.io/kyverno/test-images/cosign", "github-attestation", "https://github.com/kyverno/test-images/.github/workflows/cosign.yml@refs/heads/main", w.rekor(), ""},
		{"ghcr.io/nirmata/github-signing-demo", "latest", "https://github.com/nirmata/github-signing-demo/.github/workflows/build-attested-image.yaml@refs/heads/main", w.tsa(), "072be10d"},
	} {
		leaf, err := w.keyless(fmt.Sprint("suite-bundle-", n), w.authority, github(i.uri))
		if err != nil {
			return err
		}
		name := "suite/" + i.repository + ":" + i.tag
		img, err := w.push(name, i.repository, i.tag, "bundle: provenance 1 by "+i.uri)
		if err != nil {
			return err
		}
		if err := w.attest("cosign2", img, leaf, "slsaprovenance1", predicate, "--new-bundle-format", i.stamp); err != nil {
			return err
		}
		if i.digest != "" {
			w.suite.Digests[i.digest] = name
		}
	}
	return nil
}
