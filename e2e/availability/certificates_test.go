package availability

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/certs"
	"ephor.invalid/ephor/internal/devcluster"
)

const (
	caName   = "kyverno-svc.kyverno.svc.kyverno-tls-ca"
	pairName = "kyverno-svc.kyverno.svc.kyverno-tls-pair"
	day      = 24 * time.Hour
)

// secret reads a Secret, and returns nil if it does not exist.
func secret(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	s, err := cluster.Client.CoreV1().Secrets(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return s
}

// read parses a Secret.
func read(t *testing.T, name string) *certs.Pair {
	t.Helper()
	s := secret(t, name)
	if s == nil {
		t.Fatalf("there is no Secret %s", name)
	}
	p, err := certs.ParsePair(s.Data["tls.crt"], s.Data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func deleteSecrets(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		cluster.Must(t, "", "delete", "secret", name, "-n", namespace, "--ignore-not-found", "--wait=false")
	}
}

// issuedAt writes the missing Secrets as if it were the given time.
func issuedAt(t *testing.T, then time.Time) {
	t.Helper()
	c, err := ctrlclient.New(cluster.Config, ctrlclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &certs.Reconciler{
		Config: certs.Config{
			Namespace: namespace, CASecret: caName, TLSSecret: pairName, Algorithm: certs.ECDSA, RenewBefore: 15 * day,
			Names: certs.ServiceNames("kyverno-svc", namespace, ""),
		},
		Client: c, Reader: c, Now: func() time.Time { return then }, Log: slog.New(slog.DiscardHandler),
	}
	if _, err := r.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// mine removes the label by which the controllers recognize their own Secrets.
func mine(t *testing.T) {
	t.Helper()
	cluster.Must(t, "", "label", "secret", caName, pairName, "-n", namespace, certs.ManagedLabel+"-")
}

// settled waits until the CA has signed the pair, all configurations contain the CA, and the policy is enforced.
func settled(t *testing.T) time.Duration {
	t.Helper()
	return suite.Until(t, "the certificates are at rest", func() error {
		ca, pair := secret(t, caName), secret(t, pairName)
		if ca == nil || pair == nil {
			return fmt.Errorf("a Secret is missing")
		}
		for _, s := range []*corev1.Secret{ca, pair} { // the controllers log that they restore one before they write it
			if block, _ := pem.Decode(s.Data["tls.key"]); block == nil {
				return fmt.Errorf("the key in %s is damaged", s.Name)
			}
		}
		authority, err := certs.ParseCertificates(ca.Data["tls.crt"])
		if err != nil {
			return err
		}
		leaf, err := certs.ParseCertificates(pair.Data["tls.crt"])
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AddCert(authority[0])
		if _, err := leaf[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: "kyverno-svc.kyverno.svc"}); err != nil {
			return err
		}
		for _, kind := range []string{"validating", "mutating"} {
			bundles := cluster.Must(t, "", "get", kind+"webhookconfigurations", "-o", `jsonpath={range .items[*].webhooks[*]}{.clientConfig.caBundle}{"\n"}{end}`)
			for _, b := range strings.Fields(bundles) {
				if text, err := decode(b); err != nil || !strings.Contains(text, strings.TrimSpace(string(ca.Data["tls.crt"]))) {
					return fmt.Errorf("a %s configuration does not carry the CA (%v)", kind, err)
				}
			}
		}
		return cluster.Enforced(t.Context())
	})
}

// handshakes opens new connections to the replicas continuously, as a client that trusts the CA bundle of the configurations at that moment,
// since the API server reuses its connections. The returned function stops it, and fails the test if a certificate was not trusted.
func handshakes(t *testing.T, replicas ...*devcluster.Replica) (finish func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	failures := map[string]string{}
	var made atomic.Int64
	var wg sync.WaitGroup
	bundle := func() []byte {
		cfg, err := cluster.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "kyverno-policy-validating-webhook-cfg", metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return cfg.Webhooks[0].ClientConfig.CABundle
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			for _, r := range replicas {
				trusted := bundle()
				if trusted == nil {
					continue
				}
				roots := x509.NewCertPool()
				roots.AppendCertsFromPEM(trusted)
				conn, err := tls.Dial("tcp", r.Addr, &tls.Config{RootCAs: roots, ServerName: "kyverno-svc.kyverno.svc"})
				switch {
				case err == nil:
					conn.Close()
					made.Add(1)
				case bytes.Equal(bundle(), trusted): // otherwise the bundle changed during the connection
					failures[r.Name+": "+err.Error()] = time.Now().Format(time.TimeOnly)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	return func() {
		from := made.Load()
		suite.Until(t, "twenty further connections are made", func() error {
			if n := made.Load() - from; n < 20 {
				return fmt.Errorf("%d are", n)
			}
			return nil
		})
		cancel()
		wg.Wait()
		for text, at := range failures {
			t.Errorf("%s: %s", at, text)
		}
		t.Logf("%d connections were made", made.Load())
	}
}

// For every algorithm of --tlsKeyAlgorithm, the Secrets have Kyverno's names, type, labels and contents, and the API server accepts the
// server.
func TestKeyAlgorithms(t *testing.T) {
	for _, algorithm := range []string{"RSA", "ECDSA", "Ed25519"} {
		t.Run(algorithm, func(t *testing.T) {
			deleteSecrets(t, caName, pairName)
			cluster.StartEnforcing(t, 1, "--tlsKeyAlgorithm="+strings.ToLower(algorithm))
			settled(t)
			for name, common := range map[string]string{caName: "*.kyverno.svc", pairName: "kyverno-svc"} {
				s, p := secret(t, name), read(t, name)
				if s.Type != corev1.SecretTypeTLS || s.Labels["cert.kyverno.io/managed-by"] != "kyverno" || len(s.Data) != 2 {
					t.Errorf("%s: %s %v", name, s.Type, s.Labels)
				}
				if got := p.Newest().PublicKeyAlgorithm.String(); got != algorithm || p.Newest().Subject.CommonName != common {
					t.Errorf("%s: %s, %s", name, got, p.Newest().Subject)
				}
				if !strings.HasPrefix(string(s.Data["tls.key"]), "-----BEGIN PRIVATE KEY-----") {
					t.Errorf("%s: the key is not PKCS#8", name)
				}
			}
		})
	}
}

// A new algorithm is a rotation: the existing pair is used until its renewal, which creates keys of the new algorithm.
func TestAlgorithmChanges(t *testing.T) {
	deleteSecrets(t, caName, pairName)
	issuedAt(t, time.Now().Add(-350*day)) // the CA must be renewed now, and the pair has expired
	cluster.StartEnforcing(t, 1, "--tlsKeyAlgorithm=Ed25519")
	settled(t)
	if ca := read(t, caName); ca.Newest().PublicKeyAlgorithm != x509.Ed25519 || len(ca.Certs) != 2 {
		t.Errorf("%s, %d certificates", ca.Newest().PublicKeyAlgorithm, len(ca.Certs))
	}
	if pair := read(t, pairName); pair.Newest().PublicKeyAlgorithm != x509.Ed25519 {
		t.Errorf("%s", pair.Newest().PublicKeyAlgorithm)
	}
}

// With two replicas and continuous requests, damaged or deleted Secrets are restored within a minute, the log reports it, and no request
// fails.
func TestSecretsAreRestored(t *testing.T) {
	replicas := cluster.StartEnforcing(t, 2)
	r := leader(t, "kyverno", replicas)
	settled(t)
	finish, close := load(t, 2), handshakes(t, replicas...)
	for _, c := range []struct {
		name  string
		act   func(t *testing.T)
		words []string
	}{
		{"the pair is deleted", func(t *testing.T) { deleteSecrets(t, pairName) }, []string{"issuing the serving certificate", "there is no Secret"}},
		{"the CA is deleted", func(t *testing.T) { deleteSecrets(t, caName) }, []string{"writing the certificate authority", "there is no Secret", "kept=1"}},
		{"both are deleted", func(t *testing.T) { deleteSecrets(t, caName, pairName) }, []string{"writing the certificate authority", "there is no Secret"}},
		{"the pair is damaged", func(t *testing.T) {
			cluster.Must(t, "", "patch", "secret", pairName, "-n", namespace, "-p", `{"data":{"tls.crt":"Z2FyYmFnZQ=="}}`)
		}, []string{"issuing the serving certificate", "no certificate in PEM form"}},
		{"the CA is damaged", func(t *testing.T) {
			cluster.Must(t, "", "patch", "secret", caName, "-n", namespace, "-p", `{"data":{"tls.key":"Z2FyYmFnZQ=="}}`)
		}, []string{"writing the certificate authority", "no private key in PEM form"}},
		{"the pair is another CA's", func(t *testing.T) {
			kept := secret(t, caName)
			deleteSecrets(t, pairName)
			foreign := foreignPair(t)
			if _, err := cluster.Client.CoreV1().Secrets(namespace).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil && secret(t, pairName) == nil {
				t.Fatal(err)
			}
			if _, err := cluster.Client.CoreV1().Secrets(namespace).Update(t.Context(), foreign, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if now := secret(t, caName); string(now.Data["tls.crt"]) != string(kept.Data["tls.crt"]) {
				t.Fatal("the CA changed")
			}
		}, []string{"issuing the serving certificate", "unknown authority"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := suite.Logged(r, c.words...)
			c.act(t)
			begin := time.Now()
			suite.Until(t, "the log says it", func() error {
				if suite.Logged(r, c.words...) == before {
					return fmt.Errorf("the log ends with:\n%s", r.Tail(8))
				}
				return nil
			})
			settled(t)
			t.Logf("restored after %s", time.Since(begin).Round(100*time.Millisecond))
		})
	}
	close()
	t.Logf("%d objects were tried", finish())
}

// A pair is renewed when the time for it comes, without any other event.
func TestClockPassesRenewal(t *testing.T) {
	var r *devcluster.Replica
	// A busy machine needs longer than the first duration until the policy is enforced.
	for _, soon := range []time.Duration{8 * time.Second, 20 * time.Second, 60 * time.Second} {
		deleteSecrets(t, caName, pairName)
		// A pair is renewed after nine tenths of its lifetime, and at the latest an hour before its end.
		life := 150*day + time.Hour
		issuedAt(t, time.Now().Add(soon+life/10+time.Hour-150*day))
		before := read(t, pairName).Newest()
		r = cluster.StartEnforcing(t, 1)[0]
		if read(t, pairName).Newest().Equal(before) {
			break
		}
		suite.Stop(t, r)
		r = nil
	}
	if r == nil {
		t.Fatal("the pair was renewed at once: the test proves nothing")
	}
	finish := load(t, 1)
	suite.Says(t, r, "issuing the serving certificate", "the certificate ends")
	// The log reports the renewal before the Secret is written.
	suite.Until(t, "the new pair is there", func() error {
		if got := read(t, pairName).Newest(); time.Until(got.NotAfter) < 149*day {
			return fmt.Errorf("it ends %s", got.NotAfter)
		}
		return nil
	})
	settled(t)
	finish()
}

// Certificates that expired while no replica ran are renewed at the start.
func TestEverythingHasEnded(t *testing.T) {
	deleteSecrets(t, caName, pairName)
	issuedAt(t, time.Now().Add(-400*day))
	r := cluster.StartEnforcing(t, 1)[0]
	settled(t)
	if suite.Logged(r, "writing the certificate authority") != 1 || suite.Logged(r, "issuing the serving certificate") != 1 {
		t.Errorf("the log: %s", r.Tail(20))
	}
}

// Secrets of another owner are served unchanged and never written. An event and the log report that they will expire soon; after their
// expiry nothing is renewed, and the log reports the reason.
func TestSuppliedSecrets(t *testing.T) {
	deleteSecrets(t, caName, pairName)
	issuedAt(t, time.Now().Add(-140*day)) // 10 of 150 days remain
	mine(t)
	before := secret(t, pairName).ResourceVersion
	r := cluster.StartEnforcing(t, 1)[0]
	suite.Says(t, r, "a certificate ends soon", pairName)
	suite.Until(t, "there is an event", func() error {
		if out := cluster.Must(t, "", "get", "events", "-n", namespace, "-o", "jsonpath={range .items[*]}{.reason} {.involvedObject.name} {.message}{\"\\n\"}{end}"); !strings.Contains(out, "CertificateExpiring "+pairName+" the certificate (tls) expires ") {
			return fmt.Errorf("events:\n%s", out)
		}
		return nil
	})
	if got := secret(t, pairName).ResourceVersion; got != before {
		t.Error("the Secret was written")
	}
	if err := cluster.Enforced(t.Context()); err != nil {
		t.Error(err)
	}
	suite.Stop(t, r)

	deleteSecrets(t, caName, pairName)
	issuedAt(t, time.Now().Add(-160*day))
	mine(t)
	startUnready(t)
}

// startUnready starts a replica whose certificate has expired, and waits until it reports that it cannot renew it.
func startUnready(t *testing.T) {
	t.Helper()
	r := started(t)
	defer suite.Stop(t, r)
	suite.Says(t, r, "tls is not valid but certificates are not managed by kyverno, we can't renew them")
	if r.Ready() == nil {
		t.Error("a replica with an ended certificate is ready")
	}
}

// started starts a replica, and does not wait until it is ready.
func started(t *testing.T, args ...string) *devcluster.Replica {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := cluster.Ephor.StartAdmission(ctx, args...)
	if r == nil {
		t.Fatal(err)
	}
	return r
}

// With --disableCertManagerController the controllers neither create nor renew Secrets. The Secrets may be created later, be of any type,
// and contain other key formats and a chain, as cert-manager writes them. Both can be replaced under load.
func TestSecretsOfAnotherManager(t *testing.T) {
	for _, algorithm := range []x509.PublicKeyAlgorithm{x509.RSA, x509.ECDSA} {
		t.Run(algorithm.String(), func(t *testing.T) {
			deleteSecrets(t, caName, pairName)
			r := started(t, "--disableCertManagerController")
			defer suite.Stop(t, r)
			suite.Until(t, "it has looked for the Secrets", func() error {
				response, err := http.Get("http://" + r.MetricsAddr + "/metrics")
				if err != nil {
					return err
				}
				response.Body.Close()
				if suite.Rounds(t, r, "certificate-watch") == 0 {
					return errors.New("the controller has completed no round")
				}
				return nil
			})
			if secret(t, caName) != nil || secret(t, pairName) != nil {
				t.Fatal("a Secret was made")
			}
			supply(t, algorithm)
			suite.Until(t, "the policy is enforced", func() error { return cluster.Enforced(t.Context()) })
			leader(t, "kyverno", []*devcluster.Replica{r})

			finish, close := load(t, 2), handshakes(t, r)
			taken := suite.Logged(r, "serving a certificate")
			supply(t, algorithm)
			suite.Until(t, "the new pair is served", func() error {
				if suite.Logged(r, "serving a certificate") == taken {
					return fmt.Errorf("the log ends with:\n%s", r.Tail(5))
				}
				return nil
			})
			close()
			finish()
			if suite.Logged(r, "issuing the serving certificate") > 0 {
				t.Error("a certificate was issued")
			}
		})
	}
	deleteSecrets(t, caName, pairName)
}
