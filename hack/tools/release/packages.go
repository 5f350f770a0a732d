package main

import (
	"bytes"
	"os"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the format deb
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // the format rpm
)

// packages writes a Debian and an RPM package for each Linux platform. They run no scripts at installation.
func (r *release) packages(documents []file) error {
	work, err := os.MkdirTemp("", "ephor-packages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, platform := range r.platforms {
		arch, ok := strings.CutPrefix(platform, "linux/")
		if !ok {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			contents, err := r.installed(platform, documents, work)
			if err != nil {
				return err
			}
			packager, err := nfpm.Get(format)
			if err != nil {
				return err
			}
			info := nfpm.WithDefaults(&nfpm.Info{
				Name: "ephor", Arch: arch, Platform: "linux", Version: packageVersion(r.version), VersionSchema: "none", Release: "1",
				Section: "admin", Priority: "optional", Maintainer: r.maintainer(),
				Description: "Policy engine for Kubernetes that speaks the Kyverno policy language.\nThis package holds the command line and the controllers, which are one program.",
				Homepage:    r.address(), License: "Apache-2.0", MTime: r.created,
				Overridables: nfpm.Overridables{Contents: contents, RPM: nfpm.RPM{BuildHost: "ephor-release", Group: "Applications/System", Packager: r.maintainer(), Summary: "Policy engine for Kubernetes"}},
			})
			if err := nfpm.PrepareForPackager(info, format); err != nil {
				return err
			}
			var out bytes.Buffer
			if err := packager.Package(info, &out); err != nil {
				return err
			}
			if err := r.put(packager.ConventionalFileName(info), out.Bytes(), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// places defines where a package installs the documents, by their prefix within archives.
var places = []struct{ from, to string }{
	{"completions/ephor.bash", "/usr/share/bash-completion/completions/ephor"},
	{"completions/_ephor", "/usr/share/zsh/vendor-completions/_ephor"},
	{"completions/ephor.fish", "/usr/share/fish/vendor_completions.d/ephor.fish"},
	{"man/", "/usr/share/man/man1/"},
}

// installed returns the files of a package.
func (r *release) installed(platform string, documents []file, work string) (files.Contents, error) {
	owned := func(mode os.FileMode) *files.ContentFileInfo {
		return &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.created}
	}
	contents := files.Contents{
		{Source: r.program(platform), Destination: "/usr/bin/ephor", FileInfo: owned(0o755)},
		{Source: "ephor", Destination: "/usr/bin/kubectl-ephor", Type: files.TypeSymlink, FileInfo: owned(0)},
		{Source: r.source + "/LICENSE", Destination: "/usr/share/doc/ephor/copyright", FileInfo: owned(0o644)},
	}
	for _, d := range documents {
		for _, p := range places {
			if !strings.HasPrefix(d.path, p.from) {
				continue
			}
			path := work + "/" + strings.ReplaceAll(d.path, "/", "-")
			if err := os.WriteFile(path, d.content, 0o600); err != nil {
				return nil, err
			}
			contents = append(contents, &files.Content{Source: path, Destination: p.to + strings.TrimPrefix(d.path, p.from), FileInfo: owned(0o644)})
		}
	}
	return contents, nil
}
