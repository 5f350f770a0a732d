package preflight

import (
	"context"
	"crypto/x509"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/certs"
)

// The suffixes of the Secrets that hold certificates; Ephor takes these Secrets over.
const (
	authoritySecret = ".kyverno-tls-ca"
	servingSecret   = ".kyverno-tls-pair"
)

func (s *state) checkCertificates(ctx context.Context) {
	var secrets corev1.SecretList
	if err := s.Reader.List(ctx, &secrets, client.InNamespace(s.Namespace)); err != nil {
		s.unread(Object{Kind: "Secret", Namespace: s.Namespace}, fmt.Errorf("the certificates are not known: %w", err))
		return
	}
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if !strings.HasSuffix(secret.Name, authoritySecret) && !strings.HasSuffix(secret.Name, servingSecret) {
			continue
		}
		why := s.unusable(secret)
		if why == "" {
			continue
		}
		f := Finding{
			Code: "certificate-unusable", Severity: Note, Object: Object{Kind: "Secret", Namespace: secret.Namespace, Name: secret.Name},
			Message: why + "; Ephor makes a new one",
		}
		if secret.Labels[certs.ManagedLabel] != certs.ManagedValue {
			f.Severity = Stops
			f.Message = why + "; it lacks the label " + certs.ManagedLabel + "=" + certs.ManagedValue + ", so that Ephor does not replace it, and admission does not become ready"
			f.Commands = []string{fmt.Sprintf("kubectl label secret -n %s %s %s=%s   # or renew it at its source", secret.Namespace, secret.Name, certs.ManagedLabel, certs.ManagedValue)}
		}
		s.add(f)
	}
}

// unusable returns what is wrong with the content of a Secret; empty if it can be used.
func (s *state) unusable(secret *corev1.Secret) string {
	list, err := certs.ParseCertificates(certs.Bundle(secret))
	if err == nil && strings.HasSuffix(secret.Name, servingSecret) {
		var pair *certs.Pair
		if pair, err = certs.ParsePair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]); err == nil {
			list = []*x509.Certificate{pair.Newest()} // the others are those of its issuers
		}
	}
	if err != nil {
		return "the certificate cannot be used: " + err.Error()
	}
	for _, c := range list {
		if s.Now().Before(c.NotAfter) {
			return ""
		}
	}
	return "the certificate has expired"
}
