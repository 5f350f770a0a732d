// Command release writes all files of a release of Ephor, from programs that are already built. It needs no network.
//
//	go run . -source ../../.. -programs build/programs -ephor bin/ephor -image build/image -version 1.2.3 -revision … -time … build/release
//
//	go run . sign -key key.pem build/release
//	go run . push -to registry.example/team -version 1.2.3 build/release
//
// The same inputs give the same bytes: every time is that of the commit, and every list is sorted. hack/release.sh builds the inputs.
// Signatures are separate files, so that the release is the same with and without them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// release holds the inputs for the files of a release, and their destination.
type release struct {
	source   string // the repository
	programs string // folder of the programs: ⟨os⟩-⟨arch⟩/ephor[.exe]
	ephor    string // the program for this machine; it prints its own pages and completions
	image    string // OCI layout of the image
	manifest string // the rendered chart; empty for none
	version  string // without "v"
	revision string // the commit
	created  time.Time
	// platforms are those of the release, with Go's names.
	platforms []string
	// registry is the location from which the image is pulled: a registry and a path.
	registry string
	// home holds the lines of home.env: where the project lives.
	home map[string]string
	// url is the location from which the files are downloaded: the address of the release's folder.
	url    string
	output string
}

// platforms are those of a complete release.
var platforms = []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64", "windows/amd64", "windows/arm64"}

func main() {
	do, args := run, os.Args[1:]
	if len(args) > 0 {
		switch args[0] {
		case "sign":
			do, args = sign, args[1:]
		case "push":
			do, args = push, args[1:]
		}
	}
	if err := do(args); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var r release
	var created, selected string
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	f.StringVar(&r.source, "source", "", "folder of the repository")
	f.StringVar(&r.programs, "programs", "", "folder with ⟨os⟩-⟨arch⟩/ephor for each platform")
	f.StringVar(&r.ephor, "ephor", "", "the program for this machine")
	f.StringVar(&r.image, "image", "", "OCI layout of the image")
	f.StringVar(&r.manifest, "manifest", "", "the chart, rendered")
	f.StringVar(&r.version, "version", "", "version, as 1.2.3")
	f.StringVar(&r.revision, "revision", "", "commit")
	f.StringVar(&created, "time", "", "time of the commit, as 2006-01-02T15:04:05Z")
	f.StringVar(&r.url, "url", "", "address that the files are downloaded from")
	f.StringVar(&r.registry, "registry", "", "registry and path of the image, for the chart; without it, that of home.env")
	f.StringVar(&selected, "platforms", strings.Join(platforms, " "), "the platforms of the release; a whole one has all of these")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 {
		return errors.New("name the folder of the release")
	}
	r.output = f.Arg(0)
	for flag, value := range map[string]string{"source": r.source, "programs": r.programs, "ephor": r.ephor, "version": r.version, "revision": r.revision} {
		if value == "" {
			return fmt.Errorf("-%s is required", flag)
		}
	}
	if err := checkVersion(r.version); err != nil {
		return err
	}
	var err error
	if r.created, err = time.Parse(time.RFC3339, created); err != nil {
		return fmt.Errorf("-time: %w", err)
	}
	r.created = r.created.UTC()
	if r.platforms, err = selectPlatforms(selected); err != nil {
		return err
	}
	if r.home, err = readHome(filepath.Join(r.source, "home.env")); err != nil {
		return err
	}
	if r.registry == "" {
		r.registry = r.home["EPHOR_REGISTRY"]
	}
	if r.url == "" {
		r.url = r.address() + "/releases/download/v" + r.version
	}
	return r.write()
}

// write writes all files, in the order of their dependencies.
func (r *release) write() error {
	if err := os.RemoveAll(r.output); err != nil {
		return err
	}
	if err := os.MkdirAll(r.output, 0o755); err != nil {
		return err
	}
	documents, err := r.documents()
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return r.archives(documents) },
		func() error { return r.packages(documents) },
		r.charts,
		r.packedImage,
		r.installManifest,
		r.materials,
		r.krew,
		r.formula,
		r.installer,
		r.provenance,
		r.sums,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// selectPlatforms parses a list of platforms; the result is in the order of a complete release.
func selectPlatforms(list string) ([]string, error) {
	named := strings.Fields(list)
	for _, p := range named {
		if !slices.Contains(platforms, p) {
			return nil, fmt.Errorf("-platforms: %q is not one of %s", p, strings.Join(platforms, ", "))
		}
	}
	selected := slices.DeleteFunc(slices.Clone(platforms), func(p string) bool { return !slices.Contains(named, p) })
	if len(selected) == 0 {
		return nil, errors.New("-platforms names none")
	}
	return selected, nil
}

// program returns the path of the program for a platform.
func (r *release) program(platform string) string {
	name := "ephor"
	if strings.HasPrefix(platform, "windows/") {
		name += ".exe"
	}
	return filepath.Join(r.programs, strings.ReplaceAll(platform, "/", "-"), name)
}

// put writes a file of the release.
func (r *release) put(name string, content []byte, mode os.FileMode) error {
	path := filepath.Join(r.output, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, mode)
}
