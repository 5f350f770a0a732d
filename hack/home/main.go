// Command home moves the project to another home: it changes the module path in every Go file and go.mod, the registry of the image and
// the chart, and every address of the project in documents, templates and scripts. home.env names the present home.
//
//	go run ./hack/home -name github.com/OWNER/NAME -registry ghcr.io/OWNER [-contact ADDRESS]
//
// It writes files and makes no commit. What is only a name stays: `ephor.dev/` in annotations, labels, conditions and leases is never
// resolved (docs/operating/annotations.md).
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// home holds the values of home.env.
type home struct {
	name     string // module path and, after https://, the address of the project
	registry string // registry and path of image and charts
	contact  string // address for reports about security
}

const file = "home.env"

func main() {
	if err := run(".", os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "home:", err)
		os.Exit(1)
	}
}

func run(root string, args []string) error {
	var to home
	f := flag.NewFlagSet("home", flag.ContinueOnError)
	f.StringVar(&to.name, "name", "", "where the project lives, as github.com/OWNER/NAME")
	f.StringVar(&to.registry, "registry", "", "registry and path of image and charts, as ghcr.io/OWNER")
	f.StringVar(&to.contact, "contact", "", "address for reports about security; without it, the present one")
	if err := f.Parse(args); err != nil {
		return err
	}
	from, err := read(filepath.Join(root, file))
	if err != nil {
		return err
	}
	if to.contact == "" {
		to.contact = from.contact
	}
	if err := to.check(); err != nil {
		return err
	}
	list := exec.Command("git", "-C", root, "ls-files", "-z")
	names, err := list.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	change := replacer(from, to)
	changed := 0
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		one, err := rewrite(filepath.Join(root, name), change)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if one {
			changed++
		}
	}
	fmt.Printf("%d files name %s now. Run `make generate` and `make test`, then commit.\n", changed, to.name)
	return nil
}

var (
	validName     = regexp.MustCompile(`^[a-z0-9.-]+\.[a-z]+(/[A-Za-z0-9._~-]+)+$`)
	validRegistry = regexp.MustCompile(`^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*$`)
)

// check returns what is wrong with a home.
func (h home) check() error {
	var wrong []error
	if !validName.MatchString(h.name) {
		wrong = append(wrong, fmt.Errorf("-name: %q is no module path such as github.com/OWNER/NAME", h.name))
	}
	if !validRegistry.MatchString(h.registry) {
		wrong = append(wrong, fmt.Errorf("-registry: %q is no registry such as ghcr.io/owner", h.registry))
	}
	if strings.ContainsAny(h.contact, " \n<>") || h.contact == "" {
		wrong = append(wrong, fmt.Errorf("-contact: %q is no address", h.contact))
	}
	return errors.Join(wrong...)
}

// read returns the home that a file names.
func read(path string) (home, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return home{}, err
	}
	var h home
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "EPHOR_HOME":
			h.name = value
		case "EPHOR_REGISTRY":
			h.registry = value
		case "EPHOR_CONTACT":
			h.contact = value
		}
	}
	return h, h.check()
}

// replacer returns the function that changes one text. The registry goes first: the image may have the name of the module.
func replacer(from, to home) func([]byte) []byte {
	registry := regexp.QuoteMeta(from.registry)
	rules := []struct {
		old *regexp.Regexp
		new string
	}{
		{regexp.MustCompile(`((?:defaultRegistry: |EPHOR_REGISTRY=|oci://|repoURL: )"?)` + registry + `\b`), "${1}" + to.registry},
		{regexp.MustCompile(`(image: "?|")` + registry + `(/ephor[:@])`), "${1}" + to.registry + "${2}"},
		{regexp.MustCompile(`(EPHOR_CONTACT=)` + regexp.QuoteMeta(from.contact)), "${1}" + to.contact},
		{regexp.MustCompile(regexp.QuoteMeta(from.name) + `\b`), to.name},
	}
	return func(text []byte) []byte {
		for _, r := range rules {
			text = r.old.ReplaceAll(text, []byte(r.new))
		}
		return text
	}
}

// rewrite changes one file, and says whether it differs. Go files are formatted, since the order of imports follows the module path.
func rewrite(path string, change func([]byte) []byte) (bool, error) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	old, err := os.ReadFile(path)
	if err != nil || bytes.IndexByte(old, 0) >= 0 { // a picture, or an archive
		return false, err
	}
	text := change(old)
	if bytes.Equal(text, old) {
		return false, nil
	}
	if filepath.Ext(path) == ".go" {
		if formatted, err := format.Source(text); err == nil {
			text = formatted
		}
	}
	return true, os.WriteFile(path, text, info.Mode().Perm())
}
