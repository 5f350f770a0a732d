package devcluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"
)

// authority is a certificate authority. The certificates that it issues are valid for a day.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// certPEM and keyPEM are both in the form of files.
	certPEM, keyPEM []byte
}

// newAuthority creates an authority with that common name.
func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	a := &authority{cert: template, key: key}
	if a.certPEM, err = a.sign(template, key); err != nil {
		return nil, err
	}
	if a.keyPEM, err = keyPEM(key); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(a.certPEM)
	a.cert, err = x509.ParseCertificate(block.Bytes)
	return a, err
}

// issue creates a key and a certificate for it, both in the form of files.
func (a *authority) issue(template *x509.Certificate) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if cert, err = a.sign(template, k); err != nil {
		return nil, nil, err
	}
	key, err = keyPEM(k)
	return cert, key, err
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}
