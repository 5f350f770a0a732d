// Command site writes the guide in docs/ as static pages, which need no server: the search works with local files, and the pages are
// readable without scripts.
//
//	go run . -source ../../.. build/site
//
// docs/README.md defines the order of the pages. A link to a page or a section that does not exist is an error.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	s := site{}
	f := flag.NewFlagSet("site", flag.ContinueOnError)
	f.StringVar(&s.source, "source", ".", "folder of the repository")
	f.StringVar(&s.repository, "repository", "", "where files that are no pages are linked to; without it, the home that home.env of the source names")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 {
		return errors.New("name the folder of the site")
	}
	s.output = f.Arg(0)
	if s.repository == "" {
		text, err := os.ReadFile(filepath.Join(s.source, "home.env"))
		if err != nil {
			return err
		}
		_, rest, _ := strings.Cut(string(text), "\nEPHOR_HOME=")
		home, _, _ := strings.Cut(rest, "\n")
		if home == "" {
			return errors.New("home.env: EPHOR_HOME is missing")
		}
		s.repository = "https://" + home
	}
	return s.write()
}
