package devcluster

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"os"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Admin is the user name of the cluster administrator. Policies and tests of users use it, as in clusters that kubeadm creates.
const Admin = "kubernetes-admin"

// certificates are the certificates of the control plane. One authority signs all of them, and CertificateSigningRequests too, as
// in clusters that kubeadm creates.
type certificates struct {
	ca                  []byte // the authority's certificate, in PEM
	adminCert, adminKey []byte // in PEM
}

// writeCertificates creates the certificates and writes the files of the control plane: ca.crt, ca.key, apiserver.crt,
// apiserver.key.
func (c *Cluster) writeCertificates(clusterIP net.IP) (*certificates, error) {
	ca, err := newAuthority("kubernetes")
	if err != nil {
		return nil, err
	}
	serving, servingKey, err := ca.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), clusterIP},
	})
	if err != nil {
		return nil, err
	}
	out := &certificates{ca: ca.certPEM}
	// The group system:masters has all rights before the roles exist, and priority and fairness do not throttle it.
	out.adminCert, out.adminKey, err = ca.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: Admin, Organization: []string{"system:masters"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, err
	}
	for name, text := range map[string][]byte{"ca.crt": ca.certPEM, "ca.key": ca.keyPEM, "apiserver.crt": serving, "apiserver.key": servingKey} {
		err = errors.Join(err, os.WriteFile(c.path(name), text, 0o600))
	}
	return out, err
}

// admin returns the administrator's entry for a kubeconfig.
func (c *certificates) admin() *clientcmdapi.AuthInfo {
	return &clientcmdapi.AuthInfo{ClientCertificateData: c.adminCert, ClientKeyData: c.adminKey}
}
