package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// Media types of charts in registries, as Helm documents them.
const (
	chartConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

var (
	versionLine = regexp.MustCompile(`(?m)^(version|appVersion):.*$`)
	// The two values of the chart that define the image's location.
	registryLine   = regexp.MustCompile(`(?m)^(global:\n  image:\n(?:    #.*\n)*    registry:) null$`)
	repositoryLine = regexp.MustCompile(`(?m)^(image:\n(?:  .*\n)*?  repository:) .*$`)
)

// chartNames are the charts of a release: that of the program, and that of the policies.
var chartNames = []string{"ephor", "ephor-policies"}

// charts writes each chart twice: as the archive for `helm install`, and as an OCI layout.
func (r *release) charts() error {
	for _, name := range chartNames {
		if err := r.chart(name); err != nil {
			return fmt.Errorf("the chart %s: %w", name, err)
		}
	}
	return nil
}

func (r *release) chart(name string) error {
	archive, metadata, err := r.packedChart(name)
	if err != nil {
		return err
	}
	if err := r.put(name+"-"+r.version+".tgz", archive, 0o644); err != nil {
		return err
	}
	image, err := r.chartImage(archive, metadata)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ephor-chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendImage(image, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version})); err != nil {
		return err
	}
	return r.packLayout(dir, chartLayout(name, r.version))
}

// packedImage writes the layout of the image as one file.
func (r *release) packedImage() error {
	if r.image == "" {
		return nil
	}
	return r.packLayout(r.image, imageLayout(r.version))
}

// installManifest copies the rendered chart, for clusters without Helm.
func (r *release) installManifest() error {
	if r.manifest == "" {
		return nil
	}
	text, err := os.ReadFile(r.manifest)
	if err != nil {
		return err
	}
	return r.put("install.yaml", text, 0o644)
}

func chartLayout(name, version string) string { return name + "_" + version + "_chart.oci.tar" }
func imageLayout(version string) string       { return "ephor_" + version + "_image.oci.tar" }

// packedChart returns the archive of a chart, and its Chart.yaml, with the version of the release and the location of the image.
func (r *release) packedChart(chart string) (archive, metadata []byte, err error) {
	root := filepath.Join(r.source, "charts", chart)
	var files []file
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch name {
		case "Chart.yaml":
			content = versionLine.ReplaceAll(content, []byte("${1}: "+r.version))
			metadata = content
		case "values.yaml":
			if chart != chartNames[0] {
				break // it names no image
			}
			if content, err = r.values(content); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		files = append(files, file{chart + "/" + filepath.ToSlash(name), 0o644, content})
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if metadata == nil {
		return nil, nil, fmt.Errorf("%s has no Chart.yaml", root)
	}
	archive, err = packTar(files, r.created)
	return archive, metadata, err
}

// values returns the values of the chart with the location of the image. The registry is the global one, which users override for a
// mirror.
func (r *release) values(content []byte) ([]byte, error) {
	registry, folder, _ := strings.Cut(r.registry, "/")
	for _, v := range []struct {
		line  *regexp.Regexp
		value string
	}{{registryLine, registry}, {repositoryLine, path.Join(folder, "ephor")}} {
		if !v.line.Match(content) {
			return nil, fmt.Errorf("no line is %s", v.line)
		}
		content = v.line.ReplaceAll(content, []byte("${1} "+v.value))
	}
	return content, nil
}

// chartImage returns the chart in the form in which registries store it.
func (r *release) chartImage(archive, metadata []byte) (v1.Image, error) {
	config, err := yaml.YAMLToJSON(metadata)
	if err != nil {
		return nil, fmt.Errorf("Chart.yaml: %w", err)
	}
	var chart struct{ Name, Description, Home string }
	if err := json.Unmarshal(config, &chart); err != nil {
		return nil, err
	}
	content := static.NewLayer(archive, chartContent)
	digest, err := content.Digest()
	if err != nil {
		return nil, err
	}
	configLayer := static.NewLayer(config, chartConfig)
	configDigest, err := configLayer.Digest()
	if err != nil {
		return nil, err
	}
	manifest := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: chartConfig, Size: int64(len(config)), Digest: configDigest},
		Layers: []v1.Descriptor{{MediaType: chartContent, Size: int64(len(archive)), Digest: digest}},
		Annotations: map[string]string{
			"org.opencontainers.image.title":       chart.Name,
			"org.opencontainers.image.description": chart.Description,
			"org.opencontainers.image.url":         chart.Home,
			"org.opencontainers.image.version":     r.version,
			"org.opencontainers.image.revision":    r.revision,
			"org.opencontainers.image.created":     r.created.Format(time.RFC3339),
		},
	}
	raw, err := json.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&artefact{manifest: raw, config: config, layers: []v1.Layer{content}})
}

// artefact is an image with a configuration in another format.
type artefact struct {
	manifest, config []byte
	layers           []v1.Layer
}

// The methods implement partial.CompressedImageCore.
func (a *artefact) RawManifest() ([]byte, error)        { return a.manifest, nil }
func (a *artefact) RawConfigFile() ([]byte, error)      { return a.config, nil }
func (a *artefact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
func (a *artefact) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	for _, l := range a.layers {
		if d, err := l.Digest(); err == nil && d == h {
			return l, nil
		}
	}
	return nil, fmt.Errorf("no layer %s", h)
}

// packLayout writes an OCI layout as one tar file, which needs no compression since its blobs are compressed.
func (r *release) packLayout(dir, name string) error {
	var files []file
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		within, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files = append(files, file{filepath.ToSlash(within), 0o644, content})
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: int64(f.mode), Size: int64(len(f.content)), ModTime: r.created, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := w.Write(f.content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return r.put(name, out.Bytes(), 0o644)
}
