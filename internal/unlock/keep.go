package unlock

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/bounded"
)

// The keys in the Secret begin with the kind of the configuration that they hold.
const (
	validatingPrefix = "validating."
	mutatingPrefix   = "mutating."
)

// maxKept bounds the unpacked size of one key: the API server accepts objects of up to 3 MB.
const maxKept = 8 << 20

// pack encodes a configuration so that it can be created again.
func pack(o client.Object) (key string, data []byte, err error) {
	o = o.DeepCopyObject().(client.Object)
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	o.SetUID("")
	o.SetCreationTimestamp(metav1.Time{})
	o.SetGeneration(0)
	o.SetDeletionTimestamp(nil)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if err := json.NewEncoder(z).Encode(o); err != nil {
		return "", nil, err
	}
	if err := z.Close(); err != nil {
		return "", nil, err
	}
	prefix := validatingPrefix
	if _, ok := o.(*admissionv1.MutatingWebhookConfiguration); ok {
		prefix = mutatingPrefix
	}
	return prefix + o.GetName(), packed.Bytes(), nil
}

// unpack reads what pack wrote.
func unpack(key string, data []byte) (client.Object, error) {
	var o client.Object
	switch {
	case len(key) > len(validatingPrefix) && key[:len(validatingPrefix)] == validatingPrefix:
		o = &admissionv1.ValidatingWebhookConfiguration{}
	case len(key) > len(mutatingPrefix) && key[:len(mutatingPrefix)] == mutatingPrefix:
		o = &admissionv1.MutatingWebhookConfiguration{}
	default:
		return nil, fmt.Errorf("the key %s is not one of Ephor's", key)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("the key %s: %w", key, err)
	}
	text, err := bounded.Read(z, maxKept)
	if err == nil {
		err = json.Unmarshal(text, o)
	}
	if err != nil {
		return nil, fmt.Errorf("the key %s: %w", key, err)
	}
	return o, nil
}
