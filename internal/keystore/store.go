package keystore

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/seal"
)

// The Secrets of the installation, one for each kind of claim, so that a process can read only the keys that it needs.
const (
	// Routes holds the key of the secret segments in webhook paths.
	Routes = "ephor-webhook-routes"
	// CleanupRoutes holds the key of the cleanup controller's webhook paths.
	CleanupRoutes = "ephor-cleanup-routes"
	// Marks holds the keys of the marks on generated objects.
	Marks = "ephor-generated-marks"
	// Reports holds the keys of intermediate reports.
	Reports = "ephor-report-seals"
	// Images holds the keys of records of verified images.
	Images = "ephor-image-seals"
	// Exceptions holds the keys of approvals of PolicyExceptions.
	Exceptions = "ephor-exception-approvals"
	// Decisions holds the key of digests in records of decisions.
	Decisions = "ephor-decision-digests"
)

// managedLabel marks the Secrets that the installation creates, including those of the certificates.
const managedLabel, managedValue = "app.kubernetes.io/managed-by", "ephor"

// currentEntry is the entry in the Secret's data that names the current key.
const currentEntry = "current"

// maxKeys bounds the keys of one Secret. Only Rotate drops the oldest keys, after the marks made with them were renewed.
const maxKeys = 64

// Store is the Secret of one kind of claim.
type Store struct {
	// Client creates and updates the Secret.
	Client client.Writer
	// Reader reads the Secret directly from the API server, without a cache.
	Reader client.Reader
	// Namespace is the namespace of the installation; Name is one of the constants above.
	Namespace, Name string
}

// Load reads the keys, and creates the Secret with a first key if it does not exist.
func (s *Store) Load(ctx context.Context) (*seal.Keyring, error) {
	secret, err := s.read(ctx)
	if apierrors.IsNotFound(err) {
		if secret, err = s.create(ctx); apierrors.IsAlreadyExists(err) {
			secret, err = s.read(ctx) // another replica created it first
		}
	}
	if err != nil {
		return nil, fmt.Errorf("keys in the Secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	return Parse(secret)
}

// Rotate adds a key, makes it the current one, and returns all keys. Seals made with older ones still verify. A conflict with another
// writer is an error for which apierrors.IsConflict is true.
func (s *Store) Rotate(ctx context.Context) (*seal.Keyring, error) {
	if _, err := s.Load(ctx); err != nil { // now it exists, and its keys are usable
		return nil, err
	}
	secret, err := s.read(ctx)
	if err == nil && len(secret.Data) > maxKeys {
		err = fmt.Errorf("it holds %d keys already: drop those that no object is marked with any more", len(secret.Data)-1)
	}
	if err == nil {
		if err = addKey(secret); err == nil {
			err = s.Client.Update(ctx, secret)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("keys in the Secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	return Parse(secret)
}

// Parse reads the keys from the Secret. The error names the Secret and reveals nothing of its data.
func Parse(secret *corev1.Secret) (*seal.Keyring, error) {
	current := string(secret.Data[currentEntry])
	var first seal.Key
	var older []seal.Key
	found := false
	for _, name := range slices.Sorted(maps.Keys(secret.Data)) {
		if name == currentEntry {
			continue
		}
		k, err := seal.NewKey(secret.Data[name])
		if err != nil || k.ID() != name {
			return nil, fmt.Errorf("the Secret %s/%s is damaged: the entry %q is not a key; restore it from a backup, or delete it and adopt what it marked", secret.Namespace, secret.Name, name)
		}
		if name == current {
			first, found = k, true
			continue
		}
		older = append(older, k)
	}
	if !found {
		return nil, fmt.Errorf("the Secret %s/%s is damaged: its entry %q names no key; restore it from a backup, or delete it and adopt what it marked", secret.Namespace, secret.Name, currentEntry)
	}
	return seal.NewKeyring(first, older...)
}

func (s *Store) read(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, s.Reader.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, secret)
}

func (s *Store) create(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: map[string]string{managedLabel: managedValue}},
		Type:       corev1.SecretTypeOpaque,
	}
	if err := addKey(secret); err != nil {
		return nil, err
	}
	return secret, s.Client.Create(ctx, secret)
}

// addKey puts a new key into the Secret and makes it the current one.
func addKey(secret *corev1.Secret) error {
	bytes := make([]byte, seal.KeySize)
	if _, err := rand.Read(bytes); err != nil {
		return err
	}
	k, err := seal.NewKey(bytes)
	if err != nil {
		return err
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[k.ID()], secret.Data[currentEntry] = bytes, []byte(k.ID())
	return nil
}
