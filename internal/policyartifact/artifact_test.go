package policyartifact

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	memory "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"ephor.invalid/ephor/internal/registry"
)

func host(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(memory.New(memory.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func client(t *testing.T) *registry.Client {
	t.Helper()
	c, err := registry.New(registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Pushed policies can be pulled again, and have the media types and annotations that other tools expect.
func TestRoundTrip(t *testing.T) {
	reference := host(t) + "/team/policies:1"
	var files []File
	for i := range 40 {
		files = append(files, File{"kyverno.io/v1", "ClusterPolicy", fmt.Sprintf("p-%d", i), fmt.Appendf(nil, "kind: ClusterPolicy\nmetadata: {name: p-%d}\n", i)})
	}
	digest, err := Push(t.Context(), client(t), reference, files)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{annotationKind: "ClusterPolicy", annotationName: "p-0", annotationAPIVersion: "kyverno.io/v1"}
	if l := manifest.Layers[0]; manifest.MediaType != types.OCIManifestSchema1 || manifest.Config.MediaType != configType || l.MediaType != layerType || !reflect.DeepEqual(l.Annotations, want) {
		t.Errorf("%+v", manifest)
	}
	for _, r := range []string{reference, strings.TrimSuffix(reference, ":1") + "@" + digest} {
		got, err := Pull(t.Context(), client(t), r)
		if err != nil || !reflect.DeepEqual(got, files) {
			t.Errorf("%s: %d files, %v", r, len(got), err)
		}
	}
}

// An artifact without policies, or with too many, is rejected.
func TestRefused(t *testing.T) {
	at := host(t)
	other, err := random.Image(10, 1)
	if err != nil {
		t.Fatal(err)
	}
	large, err := mutate.Append(empty.Image, mutate.Addendum{Layer: static.NewLayer(make([]byte, MaxLayer+1), layerType)})
	if err != nil {
		t.Fatal(err)
	}
	for text, image := range map[string]v1.Image{"does not hold policies": other, "at most 1048576 are read": large, "holds no policies": empty.Image} {
		reference := at + "/x:1"
		ref, err := name.ParseReference(reference)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, image); err != nil {
			t.Fatal(err)
		}
		if _, err := Pull(t.Context(), client(t), reference); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	if _, err := Pull(t.Context(), client(t), at+"/none:1"); err == nil {
		t.Error("an artifact that is not there is pulled")
	}
}

// An artifact of many policies may take longer than one image: each policy is a layer, with requests of its own.
func TestManyLayers(t *testing.T) {
	far := memory.New(memory.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(25 * time.Millisecond)
		far.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	client, err := registry.New(registry.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var files []File
	for i := range 40 {
		files = append(files, File{"kyverno.io/v1", "ClusterPolicy", fmt.Sprintf("p-%d", i), fmt.Appendf(nil, "metadata: {name: p-%d}\n", i)})
	}
	reference := strings.TrimPrefix(server.URL, "http://") + "/team/policies:1"
	if _, err := Push(t.Context(), client, reference, files); err != nil {
		t.Fatal(err)
	}
	if got, err := Pull(t.Context(), client, reference); err != nil || len(got) != len(files) {
		t.Errorf("%d files, %v", len(got), err)
	}
}
