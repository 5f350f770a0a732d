package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"strings"
	"time"
)

// The validity of issued certificates. It starts an hour in the past, to tolerate clock differences.
const (
	caValidity   = 365 * 24 * time.Hour
	leafValidity = 150 * 24 * time.Hour
	backdated    = time.Hour
)

// caName is the common name of the CA in every namespace, since clients rely on it.
const caName = "*.kyverno.svc"

func newKey(a Algorithm) (crypto.Signer, error) {
	switch a {
	case ECDSA:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case Ed25519:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return rsa.GenerateKey(rand.Reader, 2048)
}

// issueCA returns a self-signed CA certificate; keep are older certificates that stay in the bundle.
func issueCA(key crypto.Signer, keep []*x509.Certificate, now time.Time) (*Pair, error) {
	usage := x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign
	if algorithmOf(key) == RSA {
		usage |= x509.KeyUsageKeyEncipherment
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(0),
		Subject:               pkix.Name{CommonName: caName},
		NotBefore:             now.Add(-backdated),
		NotAfter:              now.Add(caValidity),
		KeyUsage:              usage,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	cert, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &Pair{Certs: append([]*x509.Certificate{cert}, keep...), Key: key}, nil
}

// issueLeaf returns the certificate of a server or client with a new key, signed by the newest certificate of ca.
func issueLeaf(ca *Pair, cfg *Config, now time.Time) (*Pair, error) {
	names := cfg.Names
	key, err := newKey(cfg.Algorithm)
	if err != nil {
		return nil, err
	}
	usage, purpose := x509.KeyUsageDigitalSignature, x509.ExtKeyUsageServerAuth
	if cfg.Algorithm == RSA {
		usage |= x509.KeyUsageKeyEncipherment
	}
	if cfg.Client {
		purpose = x509.ExtKeyUsageClientAuth
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: names.Common},
		DNSNames:     names.DNS,
		IPAddresses:  names.IPs,
		NotBefore:    now.Add(-backdated),
		NotAfter:     now.Add(leafValidity),
		KeyUsage:     usage,
		ExtKeyUsage:  []x509.ExtKeyUsage{purpose},
	}
	cert, err := sign(template, ca.Newest(), key.Public(), ca.Key)
	if err != nil {
		return nil, err
	}
	return &Pair{Certs: []*x509.Certificate{cert}, Key: key}, nil
}

func sign(template, parent *x509.Certificate, public any, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// Names are the names of a serving certificate.
type Names struct {
	Common string
	DNS    []string
	IPs    []net.IP
}

// ServiceNames returns the names of a Service, and of serverIP (an IP address or host name, with or without a port) if the server is
// reached from outside the cluster.
func ServiceNames(service, namespace, serverIP string) Names {
	n := Names{Common: service, DNS: []string{service, service + "." + namespace, service + "." + namespace + ".svc"}}
	if serverIP == "" {
		return n
	}
	host := strings.Trim(serverIP, "[]") // an IPv6 address without a port
	if h, _, err := net.SplitHostPort(serverIP); err == nil {
		host = h
	}
	if ip := net.ParseIP(host); ip != nil {
		n.IPs = []net.IP{ip}
	} else {
		n.DNS = append(n.DNS, host)
	}
	return n
}

// Host returns the name by which clients reach the server.
func (n Names) Host() string {
	if len(n.IPs) > 0 {
		return n.IPs[0].String()
	}
	return n.DNS[len(n.DNS)-1]
}

// answeredBy reports whether the certificate contains all names.
func (n Names) answeredBy(c *x509.Certificate) bool {
	for _, name := range n.DNS {
		if c.VerifyHostname(name) != nil {
			return false
		}
	}
	for _, ip := range n.IPs {
		if c.VerifyHostname(ip.String()) != nil {
			return false
		}
	}
	return true
}
