package devcluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The administrator is kubernetes-admin with a client certificate, the kubeconfig holds the authority itself, and an approved
// CertificateSigningRequest gives a certificate with which its user logs in.
func TestCertificates(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	c := StartT(t)
	kc, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if auth := kc.AuthInfos[Admin]; auth == nil || auth.Token != "" || len(auth.ClientCertificateData) == 0 || len(kc.Clusters["dev"].CertificateAuthorityData) == 0 {
		t.Errorf("the kubeconfig of the administrator: %v", kc)
	}
	if got := whoAmI(t, c.Config); got != Admin {
		t.Errorf("the administrator is %q", got)
	}
	admin := kubernetes.NewForConfigOrDie(c.Config).CertificatesV1().CertificateSigningRequests()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "angela", Organization: []string{"authors"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	request, err := admin.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "angela"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"}}
	if _, err := admin.UpdateApproval(t.Context(), "angela", request, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(t.Context(), "the certificate", func() error {
		if request, err = admin.Get(t.Context(), "angela", metav1.GetOptions{}); err == nil && len(request.Status.Certificate) == 0 {
			err = errors.New("it is not signed")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	private, err := keyPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	angela := &rest.Config{Host: c.Config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: c.Config.CAData, CertData: request.Status.Certificate, KeyData: private}}
	if got := whoAmI(t, angela); got != "angela" {
		t.Errorf("the certificate logs in %q", got)
	}
}

// whoAmI returns the user that the API server sees.
func whoAmI(t *testing.T, cfg *rest.Config) string {
	t.Helper()
	review, err := kubernetes.NewForConfigOrDie(cfg).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.UserInfo.Username
}
