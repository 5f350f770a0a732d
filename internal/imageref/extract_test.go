package imageref_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/value"
)

const task = `{"spec": {
	"steps": [{"name": "build", "image": "a/build:1"}, {"name": "none"}, {"name": "empty", "image": " \t"}, {"name": "test", "image": "b/test"}],
	"sidecars": {"log": {"image": "c/log:2"}, "audit": {"image": "c/audit:2"}},
	"images": ["d/one", "d/two"],
	"byName": {"x": "e/x:1"},
	"odd/key": {"ref": "docker://f/odd"},
	"groups": [{"steps": [{"image": "g/0-0"}, {"image": "g/0-1"}]}, {"steps": [{"image": "g/1-0"}]}],
	"number": 3,
	"nothing": null
}}`

func TestExtract(t *testing.T) {
	for _, c := range []struct {
		path, value, key, name string
		want                   string // group/key=reference at pointer; or the error
	}{
		{path: "/spec/steps/*/image", want: "custom/0=docker.io/a/build:1 at /spec/steps/0/image, custom/3=docker.io/b/test:latest at /spec/steps/3/image"},
		{path: "/spec/steps/*", value: "image", key: "name", name: "steps", want: "steps/build=docker.io/a/build:1 at /spec/steps/0/image, steps/test=docker.io/b/test:latest at /spec/steps/3/image"},
		{path: "spec/steps/*/image/", want: "custom/0=docker.io/a/build:1 at /spec/steps/0/image, custom/3=docker.io/b/test:latest at /spec/steps/3/image"},
		{path: "/spec/sidecars/*/image", want: "custom/audit=docker.io/c/audit:2 at /spec/sidecars/audit/image, custom/log=docker.io/c/log:2 at /spec/sidecars/log/image"},
		{path: "/spec/sidecars/log", value: "image", want: "custom/0=docker.io/c/log:2 at /spec/sidecars/log/image"},
		{path: "/spec/images/*", want: "custom/0=docker.io/d/one:latest at /spec/images/0, custom/1=docker.io/d/two:latest at /spec/images/1"},
		{path: "/spec/byName/*", want: "custom/x=docker.io/e/x:1 at /spec/byName/x"},
		{path: "/spec/groups/*/steps/*/image", want: "custom/0/0=docker.io/g/0-0:latest at /spec/groups/0/steps/0/image, " +
			"custom/0/1=docker.io/g/0-1:latest at /spec/groups/0/steps/1/image, custom/1/0=docker.io/g/1-0:latest at /spec/groups/1/steps/0/image"},
		{path: "/spec/odd~1key/ref", name: "odd", want: "odd/0=docker.io/f/odd:latest at /spec/odd~1key/ref converted"},
		{path: "/spec/missing/*/image", want: ""},
		{path: "/spec/nothing/image", want: ""},
		{path: "/spec/steps/image", want: "invalid image config: /spec/steps is not an object"},
		{path: "/spec/steps/x/image", want: "invalid image config: /spec/steps has no x"},
		{path: "/spec/number", want: "invalid image config: /spec/number is not a text"},
		{path: "/spec/number/*", want: "invalid image config: /spec/number is not a list"},
		{path: "/spec/number/a/b", want: "invalid image config: /spec/number has no a"},
		{path: "/spec/steps/*", value: "image", key: "id", want: "invalid key"},
		{path: "/spec/steps/*", value: "name", want: "custom/0=docker.io/build:latest at /spec/steps/0/name, custom/1=docker.io/none:latest at /spec/steps/1/name, " +
			"custom/2=docker.io/empty:latest at /spec/steps/2/name, custom/3=docker.io/test:latest at /spec/steps/3/name"},
	} {
		e, err := imageref.NewExtractor(c.path, c.value, c.key, c.name, c.name == "odd")
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		v, err := value.DecodeJSON([]byte(task))
		if err != nil {
			t.Fatal(err)
		}
		images, err := (imageref.Defaults{}).Extract([]imageref.Extractor{e}, v.(map[string]any), func(_ int, found any) (string, error) {
			return strings.TrimPrefix(found.(string), "docker://"), nil
		})
		var got []string
		for _, i := range images {
			text := fmt.Sprintf("%s/%s=%s at %s", i.Group, i.Key, i.String(), i.Pointer)
			if i.Converted {
				text += " converted"
			}
			got = append(got, text)
		}
		text := strings.Join(got, ", ")
		if err != nil {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("%s %s %s:\n got %s\nwant %s", c.path, c.value, c.key, text, c.want)
		}
	}
}

func TestExtractErrors(t *testing.T) {
	if _, err := imageref.NewExtractor("/", "", "", "", false); !errors.Is(err, imageref.ErrConfig) {
		t.Errorf("an empty path: %v", err)
	}
	e, err := imageref.NewExtractor("/image", "", "", "", true)
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{"image": "x"}
	_, err = (imageref.Defaults{}).Extract([]imageref.Extractor{e}, object, func(int, any) (string, error) { return "", errors.New("no") })
	if err == nil || err.Error() != "invalid jmespath at /image: no" {
		t.Errorf("a failed conversion: %v", err)
	}
	_, err = (imageref.Defaults{}).Extract([]imageref.Extractor{e}, object, func(int, any) (string, error) { return "A B", nil })
	if !errors.Is(err, imageref.ErrFormat) {
		t.Errorf("no reference: %v", err)
	}
}

// FuzzExtract tests that no path and no object makes the extraction panic, and that every pointer leads to a value.
func FuzzExtract(f *testing.F) {
	f.Add("/spec/steps/*/image", "", "", task)
	f.Add("/spec/groups/*/steps/*", "image", "name", task)
	f.Fuzz(func(t *testing.T, path, field, key, object string) {
		v, err := value.DecodeJSON([]byte(object))
		m, ok := v.(map[string]any)
		if err != nil || !ok {
			t.Skip()
		}
		e, err := imageref.NewExtractor(path, field, key, "", false)
		if err != nil {
			return
		}
		images, _ := (imageref.Defaults{}).Extract([]imageref.Extractor{e}, m, nil)
		for _, i := range images {
			if !strings.HasPrefix(i.Pointer, "/") || i.Path == "" {
				t.Errorf("%+v", i)
			}
		}
	})
}

// TestTooManyImages tests that an object with an unreasonable number of images is rejected before all are read.
func TestTooManyImages(t *testing.T) {
	var containers []any
	for i := range 5001 {
		containers = append(containers, map[string]any{"name": fmt.Sprint("c", i), "image": "x"})
	}
	object := map[string]any{"spec": map[string]any{"containers": containers}}
	if _, err := (imageref.Defaults{}).Find("Pod", object); !errors.Is(err, imageref.ErrTooMany) {
		t.Errorf("found: %v", err)
	}
	e, err := imageref.NewExtractor("/spec/containers/*/image", "", "", "", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (imageref.Defaults{}).Extract([]imageref.Extractor{e}, object, nil); !errors.Is(err, imageref.ErrTooMany) {
		t.Errorf("extracted: %v", err)
	}
	object["spec"].(map[string]any)["containers"] = containers[:5000]
	if images, err := (imageref.Defaults{}).Find("Pod", object); err != nil || len(images) != 5000 {
		t.Errorf("%d images, %v", len(images), err)
	}
}
