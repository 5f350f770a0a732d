package imageverify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/world"
)

// witness knows who signed, records requests, and cannot reach the authority named outage. With moved, the digest is the second one.
type witness struct {
	asked []string
	moved bool
}

func (w *witness) Verify(_ context.Context, r world.SignatureRequest) (string, error) {
	key := ""
	if r.Attestor != nil {
		key = r.Attestor.Key.PublicKey
	}
	w.asked = append(w.asked, fmt.Sprint(key, " ", r.Image, " ", r.Registry.Secrets, r.Repository, r.TagPrefix))
	switch {
	case key == "outage":
		return "", errors.New("connection refused")
	case key == "stranger":
		return "", &world.UnverifiedError{Reason: "no matching signatures"}
	case w.moved && key == "b":
		return strings.Repeat("b", 3), nil
	}
	return digest, nil
}

func (w *witness) Statements(ctx context.Context, r world.SignatureRequest) (string, []world.Statement, error) {
	d, err := w.Verify(ctx, r)
	if err != nil || r.Type == "none" {
		return d, nil, err
	}
	return d, []world.Statement{{Type: r.Type, Document: r.Type + " of " + r.Image}}, nil
}

func authority(keys ...string) Authority {
	a := Authority{Name: strings.Join(keys, "+"), Format: FormatCosign}
	for _, k := range keys {
		a.Forms = append(a.Forms, &world.Attestor{Key: &world.KeyAttestor{PublicKey: k}})
	}
	return a
}

// Authorities that signed are counted; an inconclusive check is an error. Each check is made once, and after the first signature it uses
// that digest.
func TestPanelCounts(t *testing.T) {
	for _, c := range []struct {
		by    []Authority
		n     int
		err   string
		asked string
	}{
		{[]Authority{authority("a"), authority("stranger")}, 1, "", "a ghcr.io/x:1 []; stranger ghcr.io/x:1@" + digest + " []"},
		{[]Authority{authority("a"), authority("a")}, 2, "", "a ghcr.io/x:1 []"},
		{[]Authority{authority("stranger", "a")}, 1, "", "stranger ghcr.io/x:1 []; a ghcr.io/x:1 []"},
		{[]Authority{authority("stranger", "outage")}, 0, "connection refused", "stranger ghcr.io/x:1 []; outage ghcr.io/x:1 []"},
		{[]Authority{authority("outage", "stranger")}, 0, "connection refused", "outage ghcr.io/x:1 []; stranger ghcr.io/x:1 []"},
		{[]Authority{authority("a"), authority("b")}, 1, "", "a ghcr.io/x:1 []; b ghcr.io/x:1@" + digest + " []"},
		{[]Authority{{Name: "none"}}, 0, "", ""},
		{[]Authority{{Name: "elsewhere", Forms: authority("a").Forms, Repository: "r", TagPrefix: "p", Secrets: []string{"s"}}}, 1, "", "a ghcr.io/x:1 [s]rp"},
		{nil, 0, "", ""},
	} {
		w := &witness{moved: true}
		p := &Panel{World: world.World{Signatures: w}}
		n, err := p.Signed(t.Context(), "ghcr.io/x:1", c.by)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if n != c.n || got != c.err || strings.Join(w.asked, "; ") != c.asked {
			t.Errorf("%d %q %s\nwant %+v", n, got, strings.Join(w.asked, "; "), c)
		}
		if verified, tried := p.Verified()["ghcr.io/x:1"]; verified != (c.n > 0) || tried != (c.err == "") {
			t.Errorf("verified %v, tried %v of %+v", verified, tried, c)
		}
	}
	p := &Panel{}
	if _, err := p.Signed(t.Context(), "x", []Authority{authority("a")}); !errors.Is(err, world.ErrUnavailable) {
		t.Errorf("where nothing is verified: %v", err)
	}
	if _, err := (&Panel{World: world.World{Signatures: &witness{}}}).Signed(t.Context(), "A B", []Authority{authority("a")}); err == nil {
		t.Error("what is no reference is verified")
	}
}

// In-toto statements are read after they were verified; referrers of the image are read without verification, unless they were verified.
func TestPanelStatements(t *testing.T) {
	w := &witness{}
	p := &Panel{World: world.World{Signatures: w}}
	intoto, referrer := Testimony{Type: "slsa"}, Testimony{Type: "sbom", Referrer: true}
	if _, err := p.Payload(t.Context(), "x:1", intoto); !errors.Is(err, ErrUnattested) {
		t.Errorf("an unverified statement: %v", err)
	}
	if n, err := p.Attested(t.Context(), "x:1", intoto, []Authority{authority("a"), authority("stranger")}); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if v, err := p.Payload(t.Context(), "x:1", intoto); v != "slsa of docker.io/x:1" || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	if n, err := p.Attested(t.Context(), "x:1", referrer, []Authority{authority("a")}); n != 0 || err != nil {
		t.Errorf("cosign signs referrers: %d, %v", n, err)
	}
	if v, err := p.Payload(t.Context(), "x:1", referrer); v != "sbom of docker.io/x:1@"+digest || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	if n, err := p.Attested(t.Context(), "x:1", Testimony{Type: "none"}, []Authority{authority("a")}); n != 0 || err != nil {
		t.Errorf("no statement: %d, %v", n, err)
	}
	if all, err := p.Payloads(t.Context(), "x:1", intoto, authority("a")); fmt.Sprint(all) != "[slsa of docker.io/x:1]" || err != nil {
		t.Errorf("the statements of a signer: %v, %v", all, err)
	}
	if all, err := p.Payloads(t.Context(), "x:1", intoto, authority("stranger")); len(all) != 0 || err != nil {
		t.Errorf("the statements of a stranger: %v, %v", all, err)
	}
	if _, err := p.Payload(t.Context(), "x:1", Testimony{Type: "none", Referrer: true}); err == nil {
		t.Error("a referrer that is not there is read")
	}
}

func (*witness) Blob(context.Context, world.BlobRequest) (string, error) {
	return "", world.ErrUnavailable
}
