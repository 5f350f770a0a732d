package imageref_test

import (
	"errors"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/value"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestParse(t *testing.T) {
	for image, want := range map[string]imageref.Reference{
		"nginx":                        {Registry: "docker.io", Path: "nginx", Name: "nginx", Tag: "latest"},
		"nginx:1.2":                    {Registry: "docker.io", Path: "nginx", Name: "nginx", Tag: "1.2"},
		"team/app":                     {Registry: "docker.io", Path: "team/app", Name: "app", Tag: "latest"},
		"ghcr.io/team/app:1":           {Registry: "ghcr.io", Path: "team/app", Name: "app", Tag: "1"},
		"localhost/app":                {Registry: "localhost", Path: "app", Name: "app", Tag: "latest"},
		"reg:5000/a/b/c@" + digest:     {Registry: "reg:5000", Path: "a/b/c", Name: "c", Digest: digest},
		"ghcr.io/team/app:1@" + digest: {Registry: "ghcr.io", Path: "team/app", Name: "app", Tag: "1", Digest: digest},
	} {
		got, err := imageref.Parse(image)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", image, got, err)
		}
	}
	for image, want := range map[string]error{
		"": imageref.ErrFormat, "a b": imageref.ErrFormat, "nginx:": imageref.ErrFormat, "a//b": imageref.ErrFormat, "*": imageref.ErrFormat,
		"nginx@sha256:abc": imageref.ErrFormat, "docker.io/Nginx": imageref.ErrUppercase,
		strings.Repeat("a/", 200) + "a": imageref.ErrLongName, strings.Repeat("a", 5000): imageref.ErrFormat,
	} {
		if got, err := imageref.Parse(image); !errors.Is(err, want) {
			t.Errorf("%.40s: %+v, %v", image, got, err)
		}
	}
}

// documentOf returns the value of the variable `images` for an object.
func documentOf(kind string, object map[string]any) (map[string]any, error) {
	images, err := (imageref.Defaults{}).Find(kind, object)
	if err != nil {
		return nil, err
	}
	return imageref.Document(images), nil
}

func TestFind(t *testing.T) {
	spec := map[string]any{
		"containers": []any{
			map[string]any{"name": "c", "image": "ghcr.io/team/app:1@" + digest}, nil,
			map[string]any{"name": "d", "image": "nginx"}, map[string]any{"name": "no image"},
		},
		"initContainers": []any{},
	}
	const want = `{"containers":{"c":{"digest":"` + digest + `","jsonPointer":"/POINTER/containers/0/image","name":"app","path":"team/app",` +
		`"reference":"ghcr.io/team/app@` + digest + `","referenceWithTag":"ghcr.io/team/app:1","registry":"ghcr.io","tag":"1"},` +
		`"d":{"digest":"","jsonPointer":"/POINTER/containers/2/image","name":"nginx","path":"nginx","reference":"docker.io/nginx:latest",` +
		`"referenceWithTag":"docker.io/nginx:latest","registry":"docker.io","tag":"latest"}}}`
	under := func(steps ...string) map[string]any {
		var v any = spec
		for i := len(steps) - 1; i >= 0; i-- {
			v = map[string]any{steps[i]: v}
		}
		return v.(map[string]any)
	}
	for kind, steps := range map[string][]string{
		"Pod": {"spec"}, "Deployment": {"spec", "template", "spec"}, "CronJob": {"spec", "jobTemplate", "spec", "template", "spec"},
	} {
		got, err := documentOf(kind, under(steps...))
		if wanted := strings.ReplaceAll(want, "POINTER", strings.Join(steps, "/")); err != nil || value.JSON(got) != wanted {
			t.Errorf("%s:\n got %s, %v\nwant %s", kind, value.JSON(got), err, wanted)
		}
	}
	for _, object := range []map[string]any{nil, {}, {"spec": nil}, {"spec": map[string]any{"containers": "text"}}} {
		if got, err := documentOf("Pod", object); err != nil || len(got) > 0 {
			t.Errorf("%v: %v, %v", object, got, err)
		}
	}
	if got, err := documentOf("Service", under("spec")); err != nil || len(got) > 0 {
		t.Errorf("a kind without pod template: %v, %v", got, err)
	}
	spec["containers"] = []any{map[string]any{"name": "c", "image": "a b"}}
	if _, err := documentOf("Pod", under("spec")); !errors.Is(err, imageref.ErrFormat) {
		t.Errorf("a bad image: %v", err)
	}
}

// TestImageVolumes tests that the images of volumes form a group of their own, for Pods and for controllers.
func TestImageVolumes(t *testing.T) {
	for _, c := range []struct{ kind, volumes, want string }{
		{"Pod", `[{"name": "data", "image": {"reference": "ghcr.io/team/data:1"}}, {"name": "config", "configMap": {"name": "x"}}]`, "imageVolumes/data=ghcr.io/team/data:1 at /spec/volumes/0/image/reference"},
		{"CronJob", `[{"name": "a", "emptyDir": {}}, null, {"name": "model", "image": {"reference": "model"}}]`, "imageVolumes/model=docker.io/model:latest at /spec/jobTemplate/spec/template/spec/volumes/2/image/reference"},
		{"Deployment", `[{"name": "later", "image": {"pullPolicy": "Always"}}, {"name": "empty", "image": {"reference": ""}}, {"name": "none", "image": null}]`, ""},
		{"Deployment", `[{"emptyDir": {}}]`, ""}, // only volumes with images need a name
		{"Pod", `[{"image": {"reference": "x"}}]`, "invalid key"},
		{"Pod", `[{"name": "a", "image": "x"}]`, "invalid image config"},
		{"Pod", `["x"]`, "invalid image config"},
		{"Pod", `[{"name": "a", "image": {"reference": "a b"}}]`, "invalid image 'a b' (bad image: docker.io/a b, defaultRegistry: docker.io, enableDefaultRegistryMutation: true: invalid reference format)"},
	} {
		text := `{"volumes": ` + c.volumes + `}`
		for _, step := range map[string][]string{"Pod": {"spec"}, "Deployment": {"spec", "template", "spec"}, "CronJob": {"spec", "template", "spec", "jobTemplate", "spec"}}[c.kind] {
			text = `{"` + step + `": ` + text + `}`
		}
		object, err := value.DecodeJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		images, err := (imageref.Defaults{}).Find(c.kind, object.(map[string]any))
		var got []string
		for _, i := range images {
			got = append(got, i.Group+"/"+i.Key+"="+i.String()+" at "+i.Pointer)
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s %s:\n got %s\nwant %s", c.kind, c.volumes, text, c.want)
		}
	}
}

// The error texts for objects that cannot be read, in the order in which Kyverno detects them.
func TestUnreadable(t *testing.T) {
	for _, c := range []struct {
		container any
		want      string // the error; empty for none
	}{
		{nil, ""}, {map[string]any{"name": "c"}, ""}, {map[string]any{"name": "", "image": "nginx"}, ""}, {map[string]any{"name": "c", "image": 3.0}, ""},
		{map[string]any{}, "invalid key"}, {map[string]any{"image": "a b"}, "invalid key"}, {map[string]any{"name": true, "image": "nginx"}, "invalid key"},
		{map[string]any{"name": nil}, "invalid key"}, {"text", "invalid image config"},
		{map[string]any{"name": "c", "image": "100Mi"}, "invalid image '100Mi' (bad image: docker.io/100Mi, defaultRegistry: docker.io, enableDefaultRegistryMutation: true: repository name must be lowercase)"},
	} {
		_, err := documentOf("Pod", map[string]any{"spec": map[string]any{"containers": []any{c.container}}})
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.container, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"nginx", "ghcr.io/team/app:1@" + digest, "a b", "[::1]:5000/x", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, image string) {
		r, err := imageref.Parse(image)
		if err != nil {
			return
		}
		again, err := imageref.Parse(r.String())
		if err != nil || again != r {
			t.Errorf("%q gives %+v, and %q gives %+v, %v", image, r, r.String(), again, err)
		}
	})
}

// TestT16Digests: digests have a maximum length, so that patterns are compared with short texts only.
func TestT16Digests(t *testing.T) {
	for digits, valid := range map[int]bool{31: false, 32: true, 64: true, 128: true, 129: false, 4000: false} {
		if _, err := imageref.Parse("nginx@sha512:" + strings.Repeat("0", digits)); (err == nil) != valid {
			t.Errorf("a digest of %d digits: %v", digits, err)
		}
	}
}
