package main

import (
	"bytes"
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

var (
	//go:embed templates/krew.yaml.tmpl
	krewTemplate string
	//go:embed templates/ephor.rb.tmpl
	formulaTemplate string
	//go:embed templates/install.sh.tmpl
	installTemplate string
)

// archive holds the information about an archive that an installer needs.
type archive struct{ Platform, OS, Arch, URL, Name, SHA256, Program string }

// krew writes the manifest of the kubectl plugin, `kubectl ephor`.
func (r *release) krew() error { return r.fill("krew.yaml", krewTemplate, 0o644) }

// formula writes the formula for Homebrew.
func (r *release) formula() error { return r.fill("ephor.rb", formulaTemplate, 0o644) }

// installer writes a script that downloads the archive of a machine, compares its digest and installs the program.
func (r *release) installer() error { return r.fill("install.sh", installTemplate, 0o755) }

// fill writes a file from a template over all archives.
func (r *release) fill(name, text string, mode os.FileMode) error {
	t, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return err
	}
	data := struct {
		Version, URL, Home string
		Archives           []archive
		By                 map[string]*archive
	}{Version: r.version, URL: r.url, Home: r.address(), By: map[string]*archive{}}
	for _, p := range r.platforms {
		file := archiveName(r.version, p)
		sum, err := r.sum(file)
		if err != nil {
			return err
		}
		system, arch, _ := strings.Cut(p, "/")
		a := archive{p, system, arch, r.url + "/" + file, file, sum, filepath.Base(r.program(p))}
		data.Archives = append(data.Archives, a)
		data.By[p] = &a
	}
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		return err
	}
	return r.put(name, out.Bytes(), mode)
}
