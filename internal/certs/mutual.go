package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// The two ends of a connection between our own processes have certificates of one authority, and each end verifies the other's name.

// ServerTLS returns the configuration of a server that accepts only clients with a certificate of the same authority and the given name.
func (k *Keeper) ServerTLS(client string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		s := k.current.Load()
		if s == nil {
			return nil, errors.New("no serving certificate yet")
		}
		return &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*s.cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: s.pool(), NextProtos: []string{"http/1.1"},
			// Resuming a session would skip the verification with the current authorities.
			SessionTicketsDisabled: true,
			VerifyConnection: func(c tls.ConnectionState) error {
				if err := c.PeerCertificates[0].VerifyHostname(client); err != nil {
					return fmt.Errorf("the certificate of a client: %w", err)
				}
				return nil
			},
		}, nil
	}}
}

// ClientTLS returns the configuration of a client that connects only to servers with a certificate of the same authority.
func (k *Keeper) ClientTLS() (*tls.Config, error) {
	s := k.current.Load()
	if s == nil {
		return nil, errors.New("there is no certificate for the connection yet")
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: s.pool(), Certificates: []tls.Certificate{*s.cert}}, nil
}

// pool returns the authorities of the pair.
func (s *serving) pool() *x509.CertPool {
	out := x509.NewCertPool()
	for _, c := range s.roots {
		out.AddCert(c)
	}
	return out
}
