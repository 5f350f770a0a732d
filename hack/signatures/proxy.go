package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// proxy answers CONNECT for every host itself, with certificates of its own authority.
type proxy struct {
	address string
	root    *x509.Certificate

	key      *ecdsa.PrivateKey
	handler  http.Handler
	listener net.Listener
	mu       sync.Mutex
	certs    map[string]*tls.Certificate
}

func newProxy(handler http.Handler) (*proxy, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "proxy.ephor.test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), SerialNumber: serial(),
	}
	p := &proxy{key: key, handler: handler, certs: map[string]*tls.Certificate{}}
	if p.root, err = issue(template, template, &key.PublicKey, key); err != nil {
		return nil, err
	}
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	p.address = p.listener.Addr().String()
	go p.serve()
	return p, nil
}

func (p *proxy) close() { p.listener.Close() }

func (p *proxy) serve() {
	inner := &connections{queue: make(chan net.Conn), address: p.listener.Addr()}
	server := &http.Server{Handler: p.handler, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go server.Serve(tls.NewListener(inner, &tls.Config{GetCertificate: p.certificate}))
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			server.Close()
			return
		}
		go func() {
			// The client sends nothing more before the answer, so the buffer contains no byte of the next layer.
			req, err := http.ReadRequest(bufio.NewReader(conn))
			if err != nil || req.Method != http.MethodConnect {
				conn.Close()
				return
			}
			if _, err := conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
				conn.Close()
				return
			}
			inner.queue <- conn
		}()
	}
}

func (p *proxy) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if hello.ServerName == "" {
		return nil, errors.New("no server name")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.certs[hello.ServerName]; c != nil {
		return c, nil
	}
	cert, err := issue(&x509.Certificate{
		DNSNames: []string{hello.ServerName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
		NotBefore: p.root.NotBefore, NotAfter: p.root.NotAfter, SerialNumber: serial(),
	}, p.root, &p.key.PublicKey, p.key)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: p.key}
	p.certs[hello.ServerName] = c
	return c, nil
}

// connections is a listener whose connections come from a channel.
type connections struct {
	queue   chan net.Conn
	address net.Addr
}

func (c *connections) Accept() (net.Conn, error) { return <-c.queue, nil }
func (c *connections) Close() error              { return nil }
func (c *connections) Addr() net.Addr            { return c.address }
