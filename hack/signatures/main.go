// Command signatures creates the signed images that the tests of image verification read.
//
//	make signatures-fixture                   # once a year, or when an image is added
//	go run -C hack/signatures . -keep         # create them and keep the services running, for manual experiments
//
// Every signature is made with the programs that users sign with (cosign, notation, oras), which are built once into a
// cache. They talk to services on this machine: a registry, a certificate authority, a certificate transparency log, a
// transparency log, a timestamp authority. A proxy answers for every host name, so that the images have the names of real
// registries. The result is an OCI layout in an archive, and a list of the images, keys and certificates; no private key
// is kept.
//
// This is a separate module, so that the main one does not require the signing programs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	var (
		out   = flag.String("out", filepath.Join("..", "..", "internal", "sigverify", "fixture", "testdata"), "folder of the result")
		tools = flag.String("tools", filepath.Join(cache, "ephor-signatures"), "folder of the programs that sign; what is missing is built")
		keep  = flag.Bool("keep", false, "keep the services running until Ctrl-C")
		build = flag.Bool("build", false, "only build the programs")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *out, *tools, *keep, *build); err != nil {
		fmt.Fprintln(os.Stderr, "signatures:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, tools string, keep, build bool) error {
	programs, err := findPrograms(ctx, tools)
	if err != nil || build {
		return err
	}
	work, err := os.MkdirTemp("", "ephor-signatures-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	w, err := newWorkshop(ctx, programs, work)
	if err != nil {
		return err
	}
	defer w.close()
	start := time.Now()
	if err := w.makeImages(); err != nil {
		return err
	}
	fmt.Printf("Signed %d images in %s.\n", len(w.images), time.Since(start).Round(time.Second))
	if err := w.write(out); err != nil {
		return err
	}
	if keep {
		fmt.Printf("export HTTPS_PROXY=http://%s SSL_CERT_FILE=%s COSIGN_PASSWORD=\nexport SIGSTORE_REKOR_PUBLIC_KEY=%s SIGSTORE_CT_LOG_PUBLIC_KEY_FILE=%s\nCtrl-C ends it.\n",
			w.proxy.address, w.file("proxy.pem"), w.file("rekor.pub"), w.file("ctfe.pub"))
		<-ctx.Done()
	}
	return nil
}
