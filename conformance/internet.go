package conformance

import (
	"errors"
	"os"
	"path/filepath"

	"ephor.invalid/ephor/internal/sigverify/fixture"
)

// serveImages serves the registries that the tests name, from memory, until stop is called: the command line finds a proxy in
// its environment.
func serveImages(dir string) (stop func(), err error) {
	server, stop, err := fixture.Listen("127.0.0.1:0", fixture.Load().Internet())
	if err != nil {
		return nil, err
	}
	ca := filepath.Join(dir, "internet.pem")
	return stop, errors.Join(os.WriteFile(ca, fixture.RootsPEM(), 0o644), os.Setenv("HTTPS_PROXY", "http://"+server.Address), os.Setenv("SSL_CERT_FILE", ca))
}

// substituted copies a folder of the data, replacing keys, certificates and digests by those of the served images, since only
// the owners of the real images can sign with the originals. Nothing else differs.
func substituted(from, to string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return fixture.Load().SubstituteFiles(to)
}
