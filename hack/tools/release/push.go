package main

import (
	"archive/tar"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// push pushes the image and the charts of a release to a registry, and prints their names with digests.
func push(args []string) error {
	f := flag.NewFlagSet("push", flag.ContinueOnError)
	to := f.String("to", "", "registry and path, as registry.example.com/team")
	version := f.String("version", "", "version of the release")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 || *to == "" || *version == "" {
		return errors.New("push -to HOST/PATH -version VERSION ⟨folder of the release⟩")
	}
	layouts := map[string]string{imageLayout(*version): "/ephor"}
	for _, chart := range chartNames {
		layouts[chartLayout(chart, *version)] = "/charts/" + chart
	}
	for _, file := range slices.Sorted(maps.Keys(layouts)) {
		if err := pushLayout(filepath.Join(f.Arg(0), file), *to+layouts[file]+":"+*version); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// pushLayout pushes the only artefact in a packed layout.
func pushLayout(file, reference string) error {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ephor-push-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := unpack(file, dir); err != nil {
		return err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) != 1 {
		return fmt.Errorf("%d artefacts, not one", len(manifest.Manifests))
	}
	descriptor := manifest.Manifests[0]
	options := []remote.Option{remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if descriptor.MediaType.IsIndex() {
		content, err := index.ImageIndex(descriptor.Digest)
		if err != nil {
			return err
		}
		err = remote.WriteIndex(ref, content, options...)
		if err != nil {
			return err
		}
	} else {
		content, err := index.Image(descriptor.Digest)
		if err != nil {
			return err
		}
		if err := remote.Write(ref, content, options...); err != nil {
			return err
		}
	}
	fmt.Printf("%s@%s\n", reference, descriptor.Digest)
	return nil
}

// unpack writes the files of a tar archive below dir. It rejects names that lead out of it.
func unpack(file, dir string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	r := tar.NewReader(in)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := root.MkdirAll(filepath.Dir(h.Name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		out, err := root.Create(h.Name)
		if err != nil {
			return err
		}
		if _, err := io.CopyN(out, r, h.Size); err != nil {
			return errors.Join(err, out.Close())
		}
		if err := out.Close(); err != nil {
			return err
		}
	}
}
