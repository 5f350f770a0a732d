package certs

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// rotation simulates a leader, three servers and two webhook configurations, each of which learns of changes with its own delay. The oldest
// bundle is one that some API server may still use.
type rotation struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	store   *fakeWriter
	leader  *Reconciler
	servers [3]Keeper
	bundles [2][]byte
	steps   []string
}

func newRotation(t *testing.T, seed uint64) *rotation {
	w := &rotation{t: t, random: rand.New(rand.NewPCG(seed, 7)), now: start, store: &fakeWriter{fakeSecrets: fakeSecrets{}}}
	for i := range w.servers {
		w.servers[i].Published = func() [][]byte { return known(w.bundles[:]) }
	}
	w.newLeader(ECDSA)
	return w
}

// newLeader simulates a change of leader, or a start with another flag.
func (w *rotation) newLeader(a Algorithm) {
	w.leader = &Reconciler{
		Config: config(a), Client: w.store, Reader: reader{fakeSecrets: w.store.fakeSecrets}, Log: slog.New(slog.DiscardHandler),
		Now:       func() time.Time { return w.now },
		Serving:   func() []*x509.Certificate { return w.servers[0].Serving() },
		Published: func(context.Context) ([][]byte, error) { return known(w.bundles[:]), nil },
	}
}

func known(bundles [][]byte) (out [][]byte) {
	for _, b := range bundles {
		if b != nil {
			out = append(out, b)
		}
	}
	return out
}

// step lets one participant act, and then checks that every client still accepts every server.
func (w *rotation) step(what string, act func() error) {
	w.t.Helper()
	w.steps = append(w.steps, what)
	if err := act(); err != nil {
		w.t.Fatalf("%s: %v\nafter %s", what, err, w.history())
	}
	for i := range w.servers {
		for j, b := range w.bundles {
			chain := w.servers[i].Serving()
			if chain == nil || b == nil {
				continue
			}
			trusted, err := ParseCertificates(b)
			if err == nil {
				err = verify(chain, trusted, w.now)
			}
			if err != nil {
				w.t.Fatalf("a client of configuration %d refuses server %d: %v\nafter %s", j, i, err, w.history())
			}
		}
	}
}

func (w *rotation) history() string {
	return strings.Join(w.steps[max(0, len(w.steps)-80):], ", ")
}

func (w *rotation) lead() error {
	_, err := w.leader.Reconcile(context.Background())
	return err
}

func (w *rotation) load(i int) error {
	_ = w.servers[i].load(w.store.fakeSecrets["ca"], w.store.fakeSecrets["pair"], w.now) // a server does not serve a pair that it rejects
	return nil
}

func (w *rotation) publish(i int) error {
	if b := w.servers[0].Bundle(w.store.fakeSecrets["ca"], w.now); b != nil {
		w.bundles[i] = b
	}
	return nil
}

// hear lets every participant read every object, and the leader act in between.
func (w *rotation) hear() {
	for range 4 {
		w.step("lead", w.lead)
		w.pass(retry)
		for i := range w.servers {
			w.step(fmt.Sprint("load ", i), func() error { return w.load(i) })
		}
		for i := range w.bundles {
			w.step(fmt.Sprint("publish ", i), func() error { return w.publish(i) })
		}
		w.pass(settle)
	}
}

// hearInAnyOrder lets every participant read the objects within a few seconds.
func (w *rotation) hearInAnyOrder() {
	for range 8 {
		for _, i := range w.random.Perm(len(w.servers) + len(w.bundles) + 1) {
			switch {
			case i < len(w.servers):
				w.step(fmt.Sprint("load ", i), func() error { return w.load(i) })
			case i < len(w.servers)+len(w.bundles):
				w.step(fmt.Sprint("publish ", i-len(w.servers)), func() error { return w.publish(i - len(w.servers)) })
			default:
				w.step("lead", w.lead)
			}
		}
		w.pass(retry)
	}
}

func (w *rotation) pass(d time.Duration) { w.now = w.now.Add(d) }

// Whatever happens to the Secrets and the clock, in any order, no client ever rejects a server, and in the end all servers have one
// certificate that the leader's authority signed.
func TestRotationNeverBreaksAConnection(t *testing.T) {
	for seed := range uint64(6) {
		w := newRotation(t, seed)
		w.hear()
		for range 120 {
			switch w.random.IntN(15) {
			case 0, 1, 2:
				w.step("lead", w.lead)
			case 3, 4, 5:
				i := w.random.IntN(len(w.servers))
				w.step(fmt.Sprint("load ", i), func() error { return w.load(i) })
			case 6, 7:
				i := w.random.IntN(len(w.bundles))
				w.step(fmt.Sprint("publish ", i), func() error { return w.publish(i) })
			case 8:
				w.pass(time.Second) // the patience with the bundles covers no longer pauses
			case 9:
				w.step("the CA is deleted", func() error { delete(w.store.fakeSecrets, "ca"); return nil })
				w.hear()
			case 10:
				w.step("the pair is deleted", func() error { delete(w.store.fakeSecrets, "pair"); return nil })
				w.hear()
			case 11:
				w.step("both are deleted", func() error {
					delete(w.store.fakeSecrets, "ca")
					delete(w.store.fakeSecrets, "pair")
					return nil
				})
				w.hear()
			case 12:
				w.hear()
				// The clock jumps past a renewal, but not past the expiry of the served pair.
				end := w.servers[0].Expiries()[1].NotAfter
				if ca := w.servers[0].Expiries()[0].NotAfter; ca.Before(end) {
					end = ca
				}
				w.now = end.Add(-time.Minute - time.Duration(w.random.Int64N(int64(15*day))))
				w.step("the clock jumps", w.lead)
				w.hear()
			case 14:
				w.step("another client replaces both", func() error {
					other := &fakeWriter{fakeSecrets: fakeSecrets{}}
					if err := reconcile(w.t, other, config(ECDSA), w.now); err != nil {
						return err
					}
					w.store.fakeSecrets["ca"], w.store.fakeSecrets["pair"] = other.fakeSecrets["ca"], other.fakeSecrets["pair"]
					return nil
				})
				w.hearInAnyOrder()
			case 13:
				a := []Algorithm{ECDSA, Ed25519, RSA}[w.random.IntN(3)]
				if a == RSA && seed > 0 {
					a = ECDSA // generating RSA keys is slow
				}
				w.step("a new leader with "+string(a), func() error { w.newLeader(a); return nil })
			}
		}
		w.hear()
		w.hear()
		last := w.servers[0].Serving()[0]
		for i := range w.servers {
			if c := w.servers[i].Serving()[0]; !c.Equal(last) {
				t.Fatalf("seed %d: server %d serves another certificate", seed, i)
			}
		}
		ca := parse(t, w.store, "ca")
		must(t, verify([]*x509.Certificate{last}, []*x509.Certificate{ca.Newest()}, w.now))
		// An hour after the last change, the bundle holds no authority whose key is lost.
		w.pass(2*orphanTime + time.Hour)
		w.hear()
		if ca = parse(t, w.store, "ca"); !allOf(ca.Certs, func(c *x509.Certificate) bool { return sameKey(c, ca.Newest()) }) {
			t.Errorf("seed %d: the bundle still holds %d certificates", seed, len(ca.Certs))
		}
	}
}

func allOf(list []*x509.Certificate, f func(*x509.Certificate) bool) bool {
	for _, c := range list {
		if !f(c) {
			return false
		}
	}
	return true
}

// If the bundles never include the new authority, because their writer does not run, the certificate is issued after half a minute.
func TestIssueWithoutBundles(t *testing.T) {
	w := newRotation(t, 1)
	w.hear()
	delete(w.store.fakeSecrets, "ca")
	must(t, w.lead())
	before := parse(t, w.store, "pair").Certs[0]
	must(t, w.lead())
	if after := parse(t, w.store, "pair").Certs[0]; !after.Equal(before) {
		t.Fatal("the certificate came before the bundles")
	}
	w.pass(patience)
	must(t, w.lead())
	if after := parse(t, w.store, "pair").Certs[0]; after.Equal(before) {
		t.Fatal("it still waits")
	}
}

// A pair in a Secret is not served if it is worse than the served one.
func TestKeeperKeepsWhatWorks(t *testing.T) {
	f, other := &fakeWriter{fakeSecrets: fakeSecrets{}}, &fakeWriter{fakeSecrets: fakeSecrets{}}
	must(t, reconcile(t, f, config(ECDSA), start))
	must(t, reconcile(t, other, config(ECDSA), start))
	var k Keeper
	must(t, k.load(f.fakeSecrets["ca"], f.fakeSecrets["pair"], start))
	mine := k.Serving()[0]
	if k.load(f.fakeSecrets["ca"], other.fakeSecrets["pair"], start) == nil || k.Serving()[0] != mine {
		t.Error("a pair of another CA was taken over")
	}
	// Another controller renews CA and pair one after the other: until the pair follows, both authorities are trusted.
	bundle := k.Bundle(other.fakeSecrets["ca"], start)
	if trusted, err := ParseCertificates(bundle); err != nil || verify(k.Serving(), trusted, start) != nil || len(trusted) != 2 {
		t.Errorf("%v, %d certificates", err, len(trusted))
	}
	if k.load(other.fakeSecrets["ca"], f.fakeSecrets["pair"], start) == nil {
		t.Error("a pair without its CA was taken over")
	}
	must(t, k.load(other.fakeSecrets["ca"], other.fakeSecrets["pair"], start))
	if trusted, err := ParseCertificates(k.Bundle(other.fakeSecrets["ca"], start.Add(time.Second))); err != nil || len(trusted) != 2 {
		t.Errorf("%v: other replicas may still serve the old pair, %d certificates", err, len(trusted))
	}
	if got := k.Bundle(other.fakeSecrets["ca"], start.Add(retirement)); string(got) != string(other.fakeSecrets["ca"].Data["tls.crt"]) {
		t.Error("the bundle is not the text of the Secret")
	}
	// If the served pair has expired, any other pair is accepted.
	must(t, k.load(f.fakeSecrets["ca"], other.fakeSecrets["pair"], start.Add(200*day)))
}

func TestExpiries(t *testing.T) {
	f := &fakeWriter{fakeSecrets: fakeSecrets{}}
	must(t, reconcile(t, f, config(ECDSA), start))
	var k Keeper
	if k.Expiries() != nil {
		t.Error("nothing is served")
	}
	must(t, k.load(f.fakeSecrets["ca"], f.fakeSecrets["pair"], start))
	list := k.Expiries()
	if len(list) != 2 || list[0].Use != "ca" || list[0].Secret != "ca" || list[0].NotAfter != start.Add(365*day) || list[1].Secret != "pair" || list[1].NotAfter != start.Add(150*day) {
		t.Fatalf("%+v", list)
	}
	for _, c := range []struct {
		after   time.Duration
		ca, tls bool
	}{{0, false, false}, {134 * day, false, false}, {136 * day, false, true}, {329 * day, true, true}} {
		if list[0].Ending(start.Add(c.after)) != c.ca || list[1].Ending(start.Add(c.after)) != c.tls {
			t.Errorf("after %s", c.after)
		}
		// Our own certificates are renewed before a warning is due.
		p, err := Make(config(ECDSA), State{CA: f.fakeSecrets["ca"], TLS: f.fakeSecrets["pair"]}, start.Add(c.after))
		if err != nil || c.ca && !p.RenewCA || c.tls && !p.RenewTLS {
			t.Errorf("after %s: %+v, %v", c.after, p, err)
		}
	}
}

// A server's chain may have certificates between the leaf and the CA.
func TestIntermediates(t *testing.T) {
	key, err := newKey(ECDSA)
	must(t, err)
	root, err := issueCA(key, nil, start)
	must(t, err)
	betweenKey, err := newKey(ECDSA)
	must(t, err)
	template := *root.Certs[0]
	template.Subject.CommonName, template.SubjectKeyId, template.AuthorityKeyId = "between", nil, nil
	template.RawSubject = nil
	between, err := sign(&template, root.Certs[0], betweenKey.Public(), key)
	must(t, err)
	leaf, err := issueLeaf(&Pair{Certs: []*x509.Certificate{between}, Key: betweenKey}, &Config{Names: config(ECDSA).Names, Algorithm: ECDSA}, start)
	must(t, err)
	leaf.Certs = append(leaf.Certs, between)
	secret := func(name string, p *Pair) *corev1.Secret {
		certPEM, keyPEM, err := p.Encode()
		must(t, err)
		s := &corev1.Secret{Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": certPEM, "tls.key": keyPEM}}
		s.Name = name
		return s
	}
	var k Keeper
	must(t, k.load(secret("ca", root), secret("pair", leaf), start))
	must(t, k.Verify(start))
	if p, err := Make(config(ECDSA), State{CA: secret("ca", root), TLS: secret("pair", leaf)}, start); err != nil || words(p) != "" {
		t.Errorf("%q, %v", words(p), err)
	}
}

// A renewal period longer than the validity does not cause endless renewals.
func TestRenewBeforeIsBounded(t *testing.T) {
	f := &fakeWriter{fakeSecrets: fakeSecrets{}}
	cfg := config(ECDSA)
	cfg.RenewBefore = 1000 * day
	must(t, reconcile(t, f, cfg, start))
	must(t, reconcile(t, f, cfg, start.Add(time.Hour)))
	if f.writes != 2 {
		t.Errorf("%d writes", f.writes)
	}
}
