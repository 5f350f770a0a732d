package devcluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// ClientName is the common name of the certificate that WebhookClient makes.
const ClientName = "kube-apiserver"

const webhookPlugins = `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ValidatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %[1]s
- name: MutatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %[1]s
`

const webhookKubeconfig = `
apiVersion: v1
kind: Config
users:
- name: "*"
  user: {client-certificate: %s, client-key: %s}
`

// WebhookClient makes an authority and a certificate that the API server shows to its webhooks, as docs/hardening.md says.
// flags are for Options.APIServerFlags, ca is for --client-ca-file. The files are in dir, and end after a day.
func WebhookClient(dir string) (flags []string, ca string, err error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	clientKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	begin, end := time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "webhook clients"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: begin, NotAfter: end,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, "", err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: ClientName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: begin, NotAfter: end,
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, authority, &clientKey.PublicKey, caKey)
	if err != nil {
		return nil, "", err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(clientKey)
	if err != nil {
		return nil, "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", err
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	files := map[string][]byte{
		"ca.crt":              pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}),
		"client.crt":          pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leafDER}),
		"client.key":          pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		"webhooks.kubeconfig": fmt.Appendf(nil, webhookKubeconfig, path("client.crt"), path("client.key")),
		"admission.yaml":      fmt.Appendf(nil, webhookPlugins, path("webhooks.kubeconfig")),
	}
	for name, text := range files {
		if err := os.WriteFile(path(name), text, 0o600); err != nil {
			return nil, "", err
		}
	}
	return []string{"--admission-control-config-file=" + path("admission.yaml")}, path("ca.crt"), nil
}
