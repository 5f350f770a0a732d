package devcluster

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"path/filepath"
)

// ClientName is the common name of the certificate that WebhookClient creates.
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
  user: {client-certificate: %s, client-key: %s%s}
`

// WebhookClient creates an authority and a certificate that the API server presents to its webhooks, as in
// docs/security/hardening.md. flags are for Options.APIServerFlags, ca is for --client-ca-file. The files are in dir; the
// certificates expire after a day. tokenFile is a file with a token that the API server presents, too; empty for none.
func WebhookClient(dir, tokenFile string) (flags []string, ca string, err error) {
	token := ""
	if tokenFile != "" {
		token = ", tokenFile: " + tokenFile
	}
	a, err := newAuthority("webhook clients")
	if err != nil {
		return nil, "", err
	}
	cert, key, err := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: ClientName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return nil, "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", err
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	files := map[string][]byte{
		"ca.crt":              a.certPEM,
		"client.crt":          cert,
		"client.key":          key,
		"webhooks.kubeconfig": fmt.Appendf(nil, webhookKubeconfig, path("client.crt"), path("client.key"), token),
		"admission.yaml":      fmt.Appendf(nil, webhookPlugins, path("webhooks.kubeconfig")),
	}
	for name, text := range files {
		if err := os.WriteFile(path(name), text, 0o600); err != nil {
			return nil, "", err
		}
	}
	return []string{"--admission-control-config-file=" + path("admission.yaml")}, path("ca.crt"), nil
}
