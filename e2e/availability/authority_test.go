package availability

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func decode(text string) (string, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	return string(b), err
}

// authority is a CA of another owner, whose certificates differ from those of Ephor.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// issue signs a certificate; a nil parent means self-signed.
func issue(t *testing.T, parent *authority, algorithm x509.PublicKeyAlgorithm, template x509.Certificate) *authority {
	t.Helper()
	var key crypto.Signer
	var err error
	if algorithm == x509.RSA {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore = serial, time.Now().Add(-time.Minute)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(90 * day)
	}
	signer := &authority{cert: &template, key: key}
	if parent != nil {
		signer = parent
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, signer.cert, key.Public(), signer.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key}
}

func newAuthority(t *testing.T, parent *authority, algorithm x509.PublicKeyAlgorithm, name string) *authority {
	return issue(t, parent, algorithm, x509.Certificate{
		Subject: pkix.Name{CommonName: name, Organization: []string{"somebody else"}}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	})
}

func newLeaf(t *testing.T, parent *authority, algorithm x509.PublicKeyAlgorithm) *authority {
	return issue(t, parent, algorithm, x509.Certificate{
		Subject: pkix.Name{Organization: []string{"somebody else"}}, KeyUsage: x509.KeyUsageDigitalSignature,
		DNSNames:    []string{"kyverno-svc", "kyverno-svc.kyverno", "kyverno-svc.kyverno.svc", "kyverno-svc.kyverno.svc.cluster.local"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

// keyPEM returns a key in cert-manager's default formats: PKCS#1, SEC 1.
func (a *authority) keyPEM(t *testing.T) []byte {
	t.Helper()
	switch key := a.key.(type) {
	case *rsa.PrivateKey:
		return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	case *ecdsa.PrivateKey:
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	}
	t.Fatalf("a %T", a.key)
	return nil
}

func (a *authority) certPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// supply writes both Secrets at once, for a new CA with an intermediate certificate.
func supply(t *testing.T, algorithm x509.PublicKeyAlgorithm) {
	t.Helper()
	root := newAuthority(t, nil, algorithm, "root")
	between := newAuthority(t, root, algorithm, "between")
	leaf := newLeaf(t, between, algorithm)
	ca := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: caName}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{
		"tls.crt": root.certPEM(), "tls.key": root.keyPEM(t), "ca.crt": root.certPEM(),
	}}
	pair := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: pairName}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{
		"tls.crt": append(leaf.certPEM(), between.certPEM()...), "tls.key": leaf.keyPEM(t), "ca.crt": root.certPEM(),
	}}
	if algorithm == x509.ECDSA { // as an administrator does, in Secrets without a type
		ca.Type, pair.Type = corev1.SecretTypeOpaque, corev1.SecretTypeOpaque
		delete(ca.Data, "tls.key")
	}
	for _, s := range []*corev1.Secret{ca, pair} {
		var err error
		if secret(t, s.Name) == nil {
			_, err = cluster.Client.CoreV1().Secrets(namespace).Create(t.Context(), s, metav1.CreateOptions{})
		} else {
			_, err = cluster.Client.CoreV1().Secrets(namespace).Update(t.Context(), s, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// foreignPair returns a certificate pair in one of our Secrets that is not signed by a CA of Ephor.
func foreignPair(t *testing.T) *corev1.Secret {
	t.Helper()
	leaf := newLeaf(t, newAuthority(t, nil, x509.ECDSA, "foreign"), x509.ECDSA)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: pairName, Labels: map[string]string{"cert.kyverno.io/managed-by": "kyverno"}},
		Type:       corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": leaf.certPEM(), "tls.key": leaf.keyPEM(t)},
	}
}
