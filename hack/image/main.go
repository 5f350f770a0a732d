// Command image writes Ephor's container image as an OCI image layout, without a Docker daemon:
//
//	go run ./hack/image -version V -revision R -time T [-push REFERENCE] DIR linux/amd64=PROGRAM linux/arm64=PROGRAM
//
// The image contains only the program and certificate authorities; it runs as an ordinary user. The same inputs give the
// same bytes. hack/image.sh builds the programs and calls it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	var o options
	created := flag.String("time", "", "time of the version, RFC 3339")
	push := flag.String("push", "", "also push it there (registry/name:tag), with the credentials of docker login")
	flag.StringVar(&o.version, "version", "devel", "version of the program")
	flag.StringVar(&o.revision, "revision", "", "commit of the program")
	flag.Parse()
	if err := run(o, *created, *push, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(o options, created, push string, args []string) error {
	var err error
	if o.created, err = time.Parse(time.RFC3339, created); err != nil {
		return fmt.Errorf("-time: %w", err)
	}
	if len(args) < 2 {
		return errors.New("give the folder and at least one ⟨os/architecture⟩=⟨program⟩")
	}
	for _, arg := range args[1:] {
		platform, path, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("%q is not ⟨os/architecture⟩=⟨program⟩", arg)
		}
		o.programs = append(o.programs, program{platform, path})
	}
	index, err := build(o)
	if err != nil {
		return err
	}
	digest, err := write(index, args[0], o.version)
	if err != nil {
		return err
	}
	fmt.Printf("%s holds %s\n", args[0], digest)
	if push == "" {
		return nil
	}
	if err := pushIndex(index, push); err != nil {
		return err
	}
	fmt.Printf("pushed %s@%s\n", push, digest)
	return nil
}
