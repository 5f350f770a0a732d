package live

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ephor-dev/ephor/internal/world"
)

// A namespaced policy logs in to registries with the pull secrets of its own namespace only (S5 in docs/threat-model.md).
func TestS5PullSecretsAreConfined(t *testing.T) {
	used := ""
	root := &Root{Images: world.ImagesFunc(func(_ context.Context, r world.ImageRequest) (map[string]any, error) {
		used = fmt.Sprint(r.Secrets)
		return nil, nil
	})}
	for _, c := range []struct {
		reach   world.Reach
		secrets []string
		used    string // empty: refused
	}{
		{world.Cluster(), []string{"a", "b/c"}, "[a b/c]"},
		{world.InNamespace("team"), []string{"a"}, "[team/a]"},
		{world.InNamespace("team"), []string{"/a", "team/b"}, "[team/a team/b]"},
		{world.InNamespace("team"), []string{"a", "other/b"}, ""},
		{world.InNamespace("team"), []string{"/other/b"}, ""},
		{world.InNamespace("team"), []string{" other/b"}, ""},
		{world.Reach{}, []string{"a"}, ""},
	} {
		used = ""
		_, err := root.For(c.reach).Images.Image(t.Context(), world.ImageRequest{Reference: "nginx", Secrets: c.secrets})
		var far *world.PathError
		if used != c.used || (c.used == "") != errors.As(err, &far) {
			t.Errorf("%+v: used %q, %v", c, used, err)
		}
	}
	if root := (&Root{}); root.For(world.InNamespace("team")).Images != nil {
		t.Error("there are images where nobody may ask registries")
	}
}
