package main

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"

	"ephor.invalid/ephor/internal/sigverify/fixture"
)

// partOfImages is the part of the baseline whose tests use registries.
const partOfImages = "Images"

// internet serves the registries that the suite names, and the trust root, from memory, through a proxy on loopback that
// controllers and tests find in their environment.
type internet struct {
	server *fixture.Server
	stop   func()
}

// startInternet starts it and sets the environment variables that all processes inherit.
func startInternet(dir string) (*internet, error) {
	f := fixture.Load()
	server, stop, err := fixture.Listen("127.0.0.1:0", f.Internet())
	if err != nil {
		return nil, err
	}
	ca := filepath.Join(dir, "internet.pem")
	err = os.WriteFile(ca, fixture.RootsPEM(), 0o644)
	for name, value := range map[string]string{
		"HTTPS_PROXY": "http://" + server.Address, "SSL_CERT_FILE": ca,
		"NO_PROXY":     ".svc", // the API server calls webhooks itself
		"GITHUB_TOKEN": fixture.PrivatePassword, "TEST_IMAGE_URL": f.Image("suite/ttl.sh/ephor-test:1h").Tagged(),
	} {
		err = errors.Join(err, os.Setenv(name, value))
	}
	return &internet{server, stop}, err
}

// imageFlags make controllers use the proxy, and trust the signers of the fixture's images, as an operator would with a mirror of
// the repository of updates.
func imageFlags() []string {
	_, root := fixture.TUF()
	return []string{
		"--registryProxy=environment", "--enableTuf=true", "--tufMirror=https://" + fixture.TUFHost, "--tufRootRaw=" + base64.StdEncoding.EncodeToString(root),
	}
}

// logConfig is the ConfigMap from which a test of the suite reads the address of its transparency log.
const logConfig = `
apiVersion: v1
kind: ConfigMap
metadata: {name: tufvalues, namespace: kyverno}
data: {REKOR_URL: "https://rekor.sigstore.dev"}
`
