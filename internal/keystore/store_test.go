package keystore

import (
	"context"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"ephor.invalid/ephor/internal/seal"
)

func newStore(objects ...client.Object) *Store {
	c := fake.NewClientBuilder().WithObjects(objects...).Build()
	return &Store{Client: c, Reader: c, Namespace: "kyverno", Name: Marks}
}

// Replicas that start at the same time get the same key.
func TestLoadAtOnce(t *testing.T) {
	s := newStore()
	const replicas = 8
	rings := make([]*seal.Keyring, replicas)
	var all sync.WaitGroup
	for i := range rings {
		all.Go(func() {
			r, err := s.Load(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			rings[i] = r
		})
	}
	all.Wait()
	mark := rings[0].Seal("d", "x")
	for i, r := range rings {
		if err := r.Check(mark, "d", "x"); err != nil {
			t.Errorf("replica %d: %v", i, err)
		}
	}
}

func TestRotate(t *testing.T) {
	s := newStore()
	before, err := s.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	mark := before.Seal("d", "x")
	after, err := s.Rotate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := after.Check(mark, "d", "x"); err != nil {
		t.Errorf("the older key does not verify: %v", err)
	}
	if after.IsCurrent(mark) {
		t.Error("the current key is the old one")
	}
	if r, err := s.Load(context.Background()); err != nil || r.Current().ID() != after.Current().ID() {
		t.Errorf("another replica loads %v, %v", r, err)
	}
}

// A damaged Secret is an error that reveals nothing of the keys, and is not overwritten.
func TestDamaged(t *testing.T) {
	for name, data := range map[string]map[string][]byte{
		"empty":               nil,
		"no current key":      {"current": []byte("0123456789abcdef")},
		"a short key":         {"current": []byte("0123456789abcdef"), "0123456789abcdef": []byte("topsecret")},
		"a key of another ID": {"current": []byte("0123456789abcdef"), "0123456789abcdef": []byte(strings.Repeat("topsecre", 4))},
	} {
		secret := &corev1.Secret{Data: data}
		secret.Namespace, secret.Name = "kyverno", Marks
		s := newStore(secret)
		_, err := s.Load(context.Background())
		if err == nil || strings.Contains(err.Error(), "topsecre") || !strings.Contains(err.Error(), "kyverno/"+Marks) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
