package app

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The examples of docs/policies/images.md are valid values of the chart and Kubernetes objects, with flags of this program.
func TestExamplesOfImages(t *testing.T) {
	page, err := os.ReadFile("../../docs/policies/images.md")
	if err != nil {
		t.Fatal(err)
	}
	values, objects := 0, 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		for _, text := range strings.Split(string(block[1]), "\n---\n") {
			var v struct {
				APIVersion, Kind string
				Features         struct {
					OfflineTrust   struct{ Enabled bool }
					RegistryClient struct{ Proxy string }
					Tuf            struct {
						Enabled         bool
						Mirror, RootRaw string
					}
				}
			}
			if err := yaml.Unmarshal([]byte(text), &v); err != nil {
				t.Errorf("%v\n%s", err, text)
				continue
			}
			if v.Kind != "" {
				objects++
				continue
			}
			if !strings.HasPrefix(text, "features:") {
				continue
			}
			values++
			args := []string{"--caSecretName=a", "--tlsSecretName=b", "--registryProxy=" + v.Features.RegistryClient.Proxy}
			if v.Features.OfflineTrust.Enabled {
				args = append(args, "--offlineTrust")
			}
			if v.Features.Tuf.Enabled {
				args = append(args, "--enableTuf", "--tufMirror="+v.Features.Tuf.Mirror, "--tufRootRaw="+v.Features.Tuf.RootRaw)
			}
			f, fs := settingsOf(nameAdmission)
			if err := errors.Join(fs.Parse(args), f.complete(fs, func(string) (string, bool) { return "", false })); err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		}
	}
	if values == 0 || objects == 0 {
		t.Errorf("%d examples of values, %d of objects", values, objects)
	}
	for _, found := range regexp.MustCompile(`(?:^|[^-])(--[a-z][a-zA-Z-]+)`).FindAllStringSubmatch(string(page), -1) {
		name := found[1]
		if strings.Contains(name[2:], "-") { // a flag of kubectl: those of controllers have no dashes
			continue
		}
		cmd, _, err := NewControllerCommand("test").Find([]string{"admission"})
		if err != nil {
			t.Fatal(err)
		}
		if f := cmd.Flags().Lookup(strings.TrimPrefix(name, "--")); f == nil {
			t.Errorf("docs/policies/images.md names %s, which does not exist", name)
		}
	}
}
