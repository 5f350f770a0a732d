package app

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"ephor.invalid/ephor/internal/keystore"
)

// T2: a key of another replica is known soon. If the Secret becomes unreadable, no key is lost.
func TestT2Keys(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	store := &keystore.Store{Client: c, Reader: c, Namespace: "kyverno", Name: keystore.Marks}
	k, now := newKeys(store), time.Now()
	k.now = func() time.Time { return now }
	first, err := k.get(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	second, err := store.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	is := func(what, want string, fresh bool) {
		t.Helper()
		if ring, err := k.get(t.Context(), fresh); err != nil || ring.Current().ID() != want {
			t.Errorf("%s: %v, %v", what, ring.Current(), err)
		}
	}
	is("at once", first.Current().ID(), true)
	now = now.Add(keysPause)
	is("without need", first.Current().ID(), false)
	is("soon", second.Current().ID(), true)
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "kyverno", Name: keystore.Marks}, secret); err != nil {
		t.Fatal(err)
	}
	secret.Data = nil
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	now = now.Add(keysFor)
	is("damaged", second.Current().ID(), false)
}
