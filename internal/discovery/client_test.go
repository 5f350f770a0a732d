package discovery_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
)

// silent answers no request.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// What asks an API server for its kinds gives up after a while, if that server accepts connections and never answers.
func TestDiscoveryIsNeverAnswered(t *testing.T) {
	shared := &http.Client{Transport: silent{}}
	get := func(cfg *rest.Config, o client.Options) error {
		c, err := discovery.NewClient(cfg, o)
		if err != nil {
			t.Fatal(err)
		}
		return c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "b"}, &corev1.Secret{})
	}
	for name, ask := range map[string]func() error{
		"resources": func() error {
			c, err := discovery.NewResources(&rest.Config{}, shared)
			if err != nil {
				t.Fatal(err)
			}
			_, err = discovery.New(c, time.Now).Find(policy.Target{Version: "v1", Kind: "Secret"})
			return err
		},
		"mapper": func() error {
			m, err := discovery.NewMapper(&rest.Config{}, shared)
			if err != nil {
				t.Fatal(err)
			}
			_, err = m.RESTMapping(schema.GroupKind{Kind: "Secret"}, "v1")
			return err
		},
		"client on shared connections": func() error { return get(&rest.Config{}, client.Options{HTTPClient: shared}) },
		"client on its own":            func() error { return get(&rest.Config{Transport: silent{}}, client.Options{}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				if err := ask(); err == nil {
					t.Error("an answer of a silent server")
				}
				if took := time.Since(begun); took > 2*time.Minute {
					t.Errorf("discovery that is never answered ends after %v", took)
				}
			})
		})
	}
	if shared.Timeout != 0 {
		t.Errorf("watches end after %v", shared.Timeout)
	}
}

// A client with the mapper of another one asks for no kinds.
func TestClientWithAMapper(t *testing.T) {
	known := meta.NewDefaultRESTMapper(nil)
	known.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	var asked []string
	answers := transport(func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.Path)
		return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
	})
	c, err := discovery.NewClient(&rest.Config{Transport: answers}, client.Options{Mapper: known})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "b"}, &corev1.Secret{})
	if len(asked) != 1 || asked[0] != "/api/v1/namespaces/a/secrets/b" {
		t.Errorf("requests: %q", asked)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
