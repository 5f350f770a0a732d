// Package helm runs the pinned Helm (hack/tools/helm) on the chart and splits its output.
//
//	docs, err := helm.Template("charts/ephor", helm.Release, "--set", "admissionController.replicas=3")
//
// It does not link Helm, whose dependencies stay in their own module. Beside the program: hack/chart and the tests of
// charts use it.
package helm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"sigs.k8s.io/yaml"
)

// Release is the name under which the chart is rendered; the namespace is Kyverno's.
const Release = "kyverno"

// Document is one rendered object.
type Document struct {
	APIVersion, Kind, Namespace, Name string
	Labels                            map[string]string
	Text                              string // YAML without the separator; ends with a newline
}

// ID identifies the object: kind, namespace and name.
func (d Document) ID() string {
	if d.Namespace == "" {
		return d.Kind + " " + d.Name
	}
	return d.Kind + " " + d.Namespace + "/" + d.Name
}

// Template renders the chart for a release in the namespace kyverno, sorted in the order of installation, then by ID.
// The error contains Helm's output.
func Template(chart, release string, args ...string) ([]Document, error) {
	out, err := Run(append([]string{"template", release, chart, "--namespace", "kyverno"}, args...)...)
	if err != nil {
		return nil, err
	}
	return Split(out)
}

// Run runs bin/tools/helm and returns its output; it fails if Helm fails or if Helm is not built (hack/helm.sh).
func Run(args ...string) (string, error) {
	path, err := program()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(path, args...)
	// Use nothing of the user's Helm: plugins, repositories, a cluster. With rare collections a template takes 0.63 s of CPU instead of 0.83.
	cmd.Env = append(os.Environ(), "GOGC=400", "HELM_CONFIG_HOME=/nonexistent", "HELM_CACHE_HOME=/nonexistent", "HELM_DATA_HOME=/nonexistent", "KUBECONFIG=/nonexistent")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("helm %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// program finds bin/tools/helm in the checkout around the working directory.
func program() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "bin", "tools", "helm")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("bin/tools/helm is not built: run hack/helm.sh")
		}
	}
}

// source matches Helm's comment that names the template.
var source = regexp.MustCompile(`(?m)^# Source: .*\n`)

// order defines which kinds are installed before or after others; other kinds come in between.
var order = map[string]int{"Namespace": -4, "CustomResourceDefinition": -3, "ServiceAccount": -2, "ClusterRole": -1, "Deployment": 1}

// Split splits YAML of several documents.
func Split(text string) ([]Document, error) {
	var docs []Document
	for _, raw := range strings.Split("\n"+text, "\n---\n") {
		raw = strings.TrimSpace(source.ReplaceAllString(raw, ""))
		raw = strings.TrimSpace(strings.TrimPrefix(raw, "---"))
		if raw == "" {
			continue
		}
		var head struct {
			APIVersion, Kind string
			Metadata         struct {
				Name, Namespace string
				Labels          map[string]string
			}
		}
		if err := yaml.Unmarshal([]byte(raw), &head); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, raw)
		}
		if head.Kind == "" {
			continue // comments only
		}
		if head.APIVersion == "" || head.Metadata.Name == "" {
			return nil, fmt.Errorf("an object without apiVersion or name:\n%s", raw)
		}
		docs = append(docs, Document{APIVersion: head.APIVersion, Kind: head.Kind, Namespace: head.Metadata.Namespace, Name: head.Metadata.Name, Labels: head.Metadata.Labels, Text: raw + "\n"})
	}
	sort.SliceStable(docs, func(i, j int) bool {
		if a, b := order[docs[i].Kind], order[docs[j].Kind]; a != b {
			return a < b
		}
		return docs[i].ID() < docs[j].ID()
	})
	return docs, nil
}
