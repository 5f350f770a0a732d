package imageref_test

import (
	"errors"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/imageref"
)

// The settings defaultRegistry and enableDefaultRegistryMutation.
func TestDefaults(t *testing.T) {
	mirror, bare := imageref.Defaults{Registry: "mirror.example.com"}, imageref.Defaults{Bare: true}
	withPath := imageref.Defaults{Registry: "mirror.example.com/hub"}
	for _, c := range []struct {
		in             imageref.Defaults
		image          string
		registry, path string
		text           string
	}{
		{imageref.Defaults{}, "nginx", "docker.io", "nginx", "docker.io/nginx:latest"},
		{mirror, "nginx", "mirror.example.com", "nginx", "mirror.example.com/nginx:latest"},
		{mirror, "team/app:1", "mirror.example.com", "team/app", "mirror.example.com/team/app:1"},
		{mirror, "ghcr.io/team/app:1", "ghcr.io", "team/app", "ghcr.io/team/app:1"},
		{withPath, "nginx:1", "mirror.example.com", "hub/nginx", "mirror.example.com/hub/nginx:1"},
		{bare, "nginx", "", "nginx", "nginx:latest"},
		{bare, "team/app:1", "", "team/app", "team/app:1"},
		{bare, "ghcr.io/team/app:1", "ghcr.io", "team/app", "ghcr.io/team/app:1"},
		{imageref.Defaults{Registry: "mirror.example.com/hub", Bare: true}, "team/app:1", "", "team/app", "team/app:1"},
		{bare, "docker.io/nginx", "docker.io", "nginx", "docker.io/nginx:latest"},
	} {
		r, err := c.in.Parse(c.image)
		if err != nil || r.Registry != c.registry || r.Path != c.path || r.String() != c.text || r.Name == "" {
			t.Errorf("%+v of %s: %+v %s, %v", c.in, c.image, r, r, err)
		}
	}
	_, err := imageref.Defaults{Registry: "mirror.example.com", Bare: true}.Parse("")
	if !errors.Is(err, imageref.ErrFormat) || !strings.Contains(err.Error(), "defaultRegistry: mirror.example.com, enableDefaultRegistryMutation: false") {
		t.Error(err)
	}
}
