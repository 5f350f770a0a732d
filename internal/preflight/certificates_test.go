package preflight

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/certs"
)

// The certificate of the key counts in a serving Secret, and in the Secret of an authority any one.
func TestUnusable(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificate := func(of *ecdsa.PrivateKey, ends time.Time) *x509.Certificate {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.AddDate(-2, 0, 0), NotAfter: ends}
		der, err := x509.CreateCertificate(rand.Reader, template, template, of.Public(), issuer)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	past, future := now.AddDate(0, 0, -1), now.AddDate(0, 0, 1)
	for _, c := range []struct {
		what, suffix string
		certs        []*x509.Certificate
		expired      bool
	}{
		{"a valid one with its issuer", servingSecret, []*x509.Certificate{certificate(key, future), certificate(issuer, future)}, false},
		{"an expired one with its issuer", servingSecret, []*x509.Certificate{certificate(key, past), certificate(issuer, future)}, true},
		{"an authority after a renewal", authoritySecret, []*x509.Certificate{certificate(key, past), certificate(issuer, future)}, false},
		{"an expired authority", authoritySecret, []*x509.Certificate{certificate(key, past)}, true},
	} {
		s := &state{Cluster: &Cluster{Now: func() time.Time { return now }}}
		crt, secret, err := (&certs.Pair{Certs: c.certs, Key: key}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		got := s.unusable(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "svc" + c.suffix}, Data: map[string][]byte{corev1.TLSCertKey: crt, corev1.TLSPrivateKeyKey: secret}})
		if want := map[bool]string{true: "the certificate has expired"}[c.expired]; got != want {
			t.Errorf("%s: %q, want %q", c.what, got, want)
		}
	}
}
