package live

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/world"
)

// A namespaced policy uses only the pull secrets of its own namespace (S5 in docs/security/threat-model.md).
func TestS5PullSecretsAreConfined(t *testing.T) {
	used := ""
	root := &Root{Images: world.Images{Image: func(_ context.Context, r world.ImageRequest) (map[string]any, error) {
		used = fmt.Sprint(r.Secrets)
		return nil, nil
	}}}
	for _, c := range []struct {
		reach   world.Reach
		secrets []string
		used    string // empty: rejected
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
	if root := (&Root{}); root.For(world.InNamespace("team")).Images.Image != nil {
		t.Error("there are images where nobody may ask registries")
	}
}

// The same holds for requests of digests only.
func TestS5DigestsAreConfined(t *testing.T) {
	used := ""
	root := &Root{Images: world.Images{Digest: func(_ context.Context, r world.ImageRequest) (string, error) {
		used = fmt.Sprint(r.Secrets, r.Confined)
		return "sha256:ab", nil
	}}}
	images := func(reach world.Reach) world.Images { return root.For(reach).Images }
	if _, err := images(world.InNamespace("team")).Digest(t.Context(), world.ImageRequest{Secrets: []string{"other/b"}}); err == nil || used != "" {
		t.Errorf("a secret of another namespace is used: %q, %v", used, err)
	}
	if _, err := images(world.InNamespace("team")).Digest(t.Context(), world.ImageRequest{Secrets: []string{"a"}}); err != nil || used != "[team/a] true" {
		t.Errorf("%q, %v", used, err)
	}
}

// signatures records the used secrets.
type signatures struct{ used string }

func (s *signatures) Verify(_ context.Context, r world.SignatureRequest) (string, error) {
	key := r.Attestor.Key
	s.used = fmt.Sprintf("%v%v %s/%s", r.Registry.Secrets, r.Registry.Confined, key.SecretNamespace, key.SecretName)
	return "", nil
}

func (s *signatures) Blob(_ context.Context, r world.BlobRequest) (string, error) {
	s.used = fmt.Sprintf("%v %s/%s", r.Confined, r.Attestor.Key.SecretNamespace, r.Attestor.Key.SecretName)
	return "", nil
}

func (s *signatures) Statements(ctx context.Context, r world.SignatureRequest) (string, []world.Statement, error) {
	_, err := s.Verify(ctx, r)
	return "", nil, err
}

// A namespaced policy verifies signatures only with the pull secrets and the keys of its own namespace (S5 in
// docs/security/threat-model.md).
func TestS5SignaturesAreConfined(t *testing.T) {
	asked := &signatures{}
	root := &Root{Signatures: asked}
	for _, c := range []struct {
		reach     world.Reach
		secret    string
		namespace string // of the key
		used      string // empty: rejected
	}{
		{world.Cluster(), "b/c", "other", "[b/c]false other/key"},
		{world.Cluster(), "b/c", "", "[b/c]false /key"},
		{world.InNamespace("team"), "a", "team", "[team/a]true team/key"},
		{world.InNamespace("team"), "a", "", "[team/a]true team/key"},
		{world.InNamespace("team"), "a", "other", ""},
		{world.InNamespace("team"), "other/a", "team", ""},
		{world.Reach{}, "a", "", ""},
	} {
		attestor := &world.Attestor{Key: &world.KeyAttestor{SecretNamespace: c.namespace, SecretName: "key"}}
		request := world.SignatureRequest{Attestor: attestor, Registry: world.ImageRequest{Secrets: []string{c.secret}}}
		for _, ask := range []func() error{
			func() error { _, err := root.For(c.reach).Signatures.Verify(t.Context(), request); return err },
			func() error { _, _, err := root.For(c.reach).Signatures.Statements(t.Context(), request); return err },
		} {
			asked.used = ""
			err := ask()
			var far *world.PathError
			if asked.used != c.used || (c.used == "") != errors.As(err, &far) {
				t.Errorf("%+v: used %q, %v", c, asked.used, err)
			}
		}
		asked.used = ""
		_, err := root.For(c.reach).Signatures.Blob(t.Context(), world.BlobRequest{Attestor: attestor})
		if _, used, _ := strings.Cut(c.used, "]"); c.secret != "other/a" && asked.used != used { // a text has no pull secrets
			t.Errorf("a text, %+v: used %q, %v", c, asked.used, err)
		}
		if attestor.Key.SecretNamespace != c.namespace {
			t.Error("the attestor of the policy was changed")
		}
	}
	for _, key := range []world.KeyAttestor{{PublicKey: "k8s://other/key"}, {KMS: " k8s://other/key"}} { // keys given as texts
		asked.used = ""
		_, err := root.For(world.InNamespace("team")).Signatures.Verify(t.Context(), world.SignatureRequest{Attestor: &world.Attestor{Key: &key}})
		if far := (*world.PathError)(nil); !errors.As(err, &far) || asked.used != "" {
			t.Errorf("%+v: used %q, %v", key, asked.used, err)
		}
	}
	own := &world.Attestor{Key: &world.KeyAttestor{KMS: "k8s://team/key"}}
	if _, err := root.For(world.InNamespace("team")).Signatures.Verify(t.Context(), world.SignatureRequest{Attestor: own}); err != nil || asked.used != "[]true team/key" {
		t.Errorf("the own Secret: used %q, %v", asked.used, err)
	}
	if (&Root{}).For(world.InNamespace("team")).Signatures != nil {
		t.Error("there are signatures where none can be verified")
	}
}

// A namespaced policy uses only the pull secrets of objects in its own namespace, and its trust roots are marked as its own.
func TestS5ObjectsAndTrustAreConfined(t *testing.T) {
	used := ""
	root := &Root{Images: world.Images{Digest: func(_ context.Context, r world.ImageRequest) (string, error) {
		used = fmt.Sprint(r.Secrets, r.Confined)
		return "sha256:ab", nil
	}}}
	for namespace, allowed := range map[string]bool{"": true, "team": true, "other": false} {
		used = ""
		_, err := root.For(world.InNamespace("team")).Images.Digest(t.Context(), world.ImageRequest{Object: world.ObjectSecrets{Namespace: namespace, Names: []string{"a"}}})
		var far *world.PathError
		if errors.As(err, &far) == allowed || (used != "") != allowed {
			t.Errorf("an object in %q: used %q, %v", namespace, used, err)
		}
	}
	for _, c := range []struct {
		reach world.Reach
		want  bool
	}{{world.Cluster(), false}, {world.InNamespace("team"), true}} {
		asked := &trusts{}
		policy := &world.Attestor{Keyless: &world.KeylessAttestor{}, Trust: world.Trust{Mirror: "https://tuf.example"}}
		_, err := (&Root{Signatures: asked}).For(c.reach).Signatures.Verify(t.Context(), world.SignatureRequest{Attestor: policy})
		if err != nil || asked.trust.Confined != c.want || asked.trust.Mirror != "https://tuf.example" || policy.Trust.Confined {
			t.Errorf("%+v: %+v, %v, the policy has %+v", c.reach, asked.trust, err, policy.Trust)
		}
	}
}

// trusts records the used trust.
type trusts struct {
	world.Signatures
	trust world.Trust
}

func (s *trusts) Verify(_ context.Context, r world.SignatureRequest) (string, error) {
	s.trust = r.Attestor.Trust
	return "", nil
}
