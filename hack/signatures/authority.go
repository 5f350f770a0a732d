package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"net/url"
	"time"
)

// authority is a certificate authority for code signing with a certificate transparency log, as Fulcio is.
type authority struct {
	root, intermediate       *x509.Certificate
	rootKey, intermediateKey *ecdsa.PrivateKey
	log                      *ecdsa.PrivateKey
}

// tenYears is how long authorities are valid. Leaf certificates last for minutes: only the time of the signature matters.
const tenYears = 10 * 365 * 24 * time.Hour

func newAuthority(name string) (*authority, error) {
	a := &authority{}
	for _, key := range []**ecdsa.PrivateKey{&a.rootKey, &a.intermediateKey, &a.log} {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		*key = k
	}
	template := func(cn string) *x509.Certificate {
		return &x509.Certificate{
			Subject: pkix.Name{Organization: []string{"ephor.test"}, CommonName: cn}, IsCA: true, BasicConstraintsValid: true,
			KeyUsage:  x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
			NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(tenYears), SerialNumber: serial(),
		}
	}
	var err error
	root := template(name)
	if a.root, err = issue(root, root, &a.rootKey.PublicKey, a.rootKey); err != nil {
		return nil, err
	}
	intermediate := template(name + "-intermediate")
	intermediate.ExtKeyUsage, intermediate.MaxPathLenZero = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}, true
	a.intermediate, err = issue(intermediate, a.root, &a.intermediateKey.PublicKey, a.rootKey)
	return a, err
}

func issue(template, parent *x509.Certificate, key crypto.PublicKey, signer crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, signer)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // the machine has no source of randomness
	}
	return n
}

// identity is the content of a leaf certificate about its owner.
type identity struct {
	email, uri, dns, username string // names of the subject; each may be empty
	issuer                    string // extension 1.1, a text
	issuerV2                  string // extension 1.8; equal to issuer unless set
	noIssuerV2                bool
	extensions                map[int]string // further extensions of Fulcio, by the last number of their OID
	noSCT                     bool
	unknownLog                bool          // the timestamp comes from an untrusted log
	age                       time.Duration // how long ago the certificate was issued
	lifetime                  time.Duration // ten minutes unless set
}

var (
	oidFulcio  = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1}
	oidSCTs    = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}
	oidAltName = asn1.ObjectIdentifier{2, 5, 29, 17}
)

// leaf issues a certificate for the identity, and returns the key of the log that contains it.
func (a *authority) leaf(id identity, key crypto.PublicKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	start := time.Now().Add(-time.Minute - id.age)
	t := &x509.Certificate{
		NotBefore: start, NotAfter: start.Add(max(id.lifetime, 10*time.Minute)), SerialNumber: serial(),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
	if id.email != "" {
		t.EmailAddresses = []string{id.email}
	}
	if id.dns != "" {
		t.DNSNames = []string{id.dns}
	}
	if id.uri != "" {
		u, err := url.Parse(id.uri)
		if err != nil {
			return nil, nil, err
		}
		t.URIs = []*url.URL{u}
	}
	if id.username != "" {
		ext, err := otherName(id.username)
		if err != nil {
			return nil, nil, err
		}
		t.ExtraExtensions = append(t.ExtraExtensions, ext)
	}
	add := func(n int, value []byte) {
		t.ExtraExtensions = append(t.ExtraExtensions, pkix.Extension{Id: append(append(asn1.ObjectIdentifier{}, oidFulcio...), n), Value: value})
	}
	if id.issuer != "" {
		add(1, []byte(id.issuer))
	}
	v2 := id.issuerV2
	if v2 == "" && !id.noIssuerV2 {
		v2 = id.issuer
	}
	for n := 2; n <= 22; n++ {
		value := id.extensions[n]
		if n == 8 {
			value = v2
		}
		switch {
		case value == "":
		case n <= 6:
			add(n, []byte(value))
		default:
			der, err := asn1.MarshalWithParams(value, "utf8")
			if err != nil {
				return nil, nil, err
			}
			add(n, der)
		}
	}
	plain, err := issue(t, a.intermediate, key, a.intermediateKey)
	if err != nil || id.noSCT {
		return plain, a.log, err
	}
	log := a.log
	if id.unknownLog {
		if log, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, nil, err
		}
	}
	scts, err := signedTimestamps(log, a.intermediate, plain.RawTBSCertificate, start)
	if err != nil {
		return nil, nil, err
	}
	t.ExtraExtensions = append(t.ExtraExtensions, pkix.Extension{Id: oidSCTs, Value: scts})
	cert, err := issue(t, a.intermediate, key, a.intermediateKey)
	return cert, log, err
}

// otherName returns the subject alternative name that Fulcio gives to users without an e-mail address.
func otherName(name string) (pkix.Extension, error) {
	value, err := asn1.MarshalWithParams(name, "utf8")
	if err != nil {
		return pkix.Extension{}, err
	}
	oid, err := asn1.Marshal(append(append(asn1.ObjectIdentifier{}, oidFulcio...), 7))
	if err != nil {
		return pkix.Extension{}, err
	}
	explicit, err := asn1.Marshal(asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: value})
	if err != nil {
		return pkix.Extension{}, err
	}
	other, err := asn1.Marshal(asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: append(oid, explicit...)})
	if err != nil {
		return pkix.Extension{}, err
	}
	names, err := asn1.Marshal(asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: other})
	return pkix.Extension{Id: oidAltName, Value: names}, err
}

// signedTimestamps returns the extension with the promise of the log to publish the certificate (RFC 6962, 3.2 and 3.3). A
// verifier removes that extension to get the bytes that were signed.
func signedTimestamps(log *ecdsa.PrivateKey, issuer *x509.Certificate, tbs []byte, at time.Time) ([]byte, error) {
	issuerKey := sha256.Sum256(issuer.RawSubjectPublicKeyInfo)
	ms := uint64(at.UnixMilli())
	var signed bytes.Buffer
	signed.Write([]byte{0, 0}) // version 1, certificate timestamp
	binary.Write(&signed, binary.BigEndian, ms)
	signed.Write([]byte{0, 1}) // for a pre-certificate
	signed.Write(issuerKey[:])
	signed.Write([]byte{byte(len(tbs) >> 16), byte(len(tbs) >> 8), byte(len(tbs))})
	signed.Write(tbs)
	signed.Write([]byte{0, 0}) // no extensions
	digest := sha256.Sum256(signed.Bytes())
	signature, err := ecdsa.SignASN1(rand.Reader, log, digest[:])
	if err != nil {
		return nil, err
	}
	id, err := keyID(&log.PublicKey)
	if err != nil {
		return nil, err
	}
	var sct bytes.Buffer
	sct.WriteByte(0)
	sct.Write(id)
	binary.Write(&sct, binary.BigEndian, ms)
	sct.Write([]byte{0, 0, 4, 3}) // no extensions; SHA-256, ECDSA
	binary.Write(&sct, binary.BigEndian, uint16(len(signature)))
	sct.Write(signature)
	var list bytes.Buffer
	binary.Write(&list, binary.BigEndian, uint16(sct.Len()+2))
	binary.Write(&list, binary.BigEndian, uint16(sct.Len()))
	list.Write(sct.Bytes())
	return asn1.Marshal(list.Bytes())
}

// keyID returns the name of a log's key: the hash of its public part.
func keyID(key crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(der)
	return sum[:], nil
}

func certificatePEM(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}

func publicPEM(key crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), err
}

func privatePEM(key crypto.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}
