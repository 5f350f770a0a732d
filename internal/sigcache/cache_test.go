package sigcache

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/world"
)

const image = "ghcr.io/team/app:1@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// verifierFunc verifies with a function, and counts its calls.
type verifierFunc struct {
	calls atomic.Int32
	f     func(context.Context, world.SignatureRequest) (string, []world.Statement, error)
}

func (v *verifierFunc) Verify(ctx context.Context, r world.SignatureRequest) (string, error) {
	v.calls.Add(1)
	digest, _, err := v.f(ctx, r)
	return digest, err
}

func (v *verifierFunc) Blob(_ context.Context, r world.BlobRequest) (string, error) {
	return string(r.Content), nil
}

func (v *verifierFunc) Statements(ctx context.Context, r world.SignatureRequest) (string, []world.Statement, error) {
	v.calls.Add(1)
	return v.f(ctx, r)
}

func signs(statements ...world.Statement) *verifierFunc {
	return &verifierFunc{f: func(context.Context, world.SignatureRequest) (string, []world.Statement, error) {
		return "sha256:a", statements, nil
	}}
}

func fails(err error) *verifierFunc {
	return &verifierFunc{f: func(context.Context, world.SignatureRequest) (string, []world.Statement, error) { return "", nil, err }}
}

// clock is a time that tests change.
type clock struct{ now time.Time }

func (c *clock) options() Options {
	return Options{Now: func() time.Time { return c.now }, Random: func(n int64) int64 { return n / 2 }}
}

func request(change func(*world.SignatureRequest)) world.SignatureRequest {
	r := world.SignatureRequest{Image: image, Format: "Cosign", For: "policy p", Attestor: &world.Attestor{Key: &world.KeyAttestor{PublicKey: "a"}}}
	if change != nil {
		change(&r)
	}
	return r
}

// Answers are remembered for the same request of the same requester, for a digest only.
func TestQuestions(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(*world.SignatureRequest)
		remembered bool
	}{
		"the same":             {nil, true},
		"another tag":          {func(r *world.SignatureRequest) { r.Image = strings.Replace(image, ":1@", ":2@", 1) }, true},
		"no tag":               {func(r *world.SignatureRequest) { r.Image = strings.Replace(image, ":1@", "@", 1) }, true},
		"another digest":       {func(r *world.SignatureRequest) { r.Image = strings.Replace(image, "aaaa", "bbbb", 1) }, false},
		"another repository":   {func(r *world.SignatureRequest) { r.Image = strings.Replace(image, "app", "other", 1) }, false},
		"of its signatures":    {func(r *world.SignatureRequest) { r.Repository = "x" }, false},
		"another format":       {func(r *world.SignatureRequest) { r.Format = "Notary" }, false},
		"another asker":        {func(r *world.SignatureRequest) { r.For = "policy q" }, false},
		"another key":          {func(r *world.SignatureRequest) { r.Attestor = &world.Attestor{Key: &world.KeyAttestor{PublicKey: "b"}} }, false},
		"another secret":       {func(r *world.SignatureRequest) { r.Registry.Secrets = []string{"s"} }, false},
		"confined":             {func(r *world.SignatureRequest) { r.Registry.Confined = true }, false},
		"other statements":     {func(r *world.SignatureRequest) { r.Type = "sbom" }, false},
		"a tag alone":          {func(r *world.SignatureRequest) { r.Image, _, _ = strings.Cut(image, "@") }, false},
		"on behalf of nothing": {func(r *world.SignatureRequest) { r.For = "" }, false},
	} {
		v := signs()
		cache := New(v, (&clock{}).options())
		if _, err := cache.Verify(t.Context(), request(nil)); err != nil {
			t.Fatal(err)
		}
		var remembered bool
		r := request(c.change)
		r.Remembered = &remembered
		digest, err := cache.Verify(t.Context(), r)
		if digest != "sha256:a" || err != nil || remembered != c.remembered || (v.calls.Load() == 1) != c.remembered {
			t.Errorf("%s: %s, %v, remembered %v after %d calls", name, digest, err, remembered, v.calls.Load())
		}
	}
	v := signs()
	cache := New(v, (&clock{}).options())
	_, _ = cache.Verify(t.Context(), request(nil))
	if _, _, err := cache.Statements(t.Context(), request(nil)); err != nil || v.calls.Load() != 2 {
		t.Errorf("statements instead of a signature: %v after %d calls", err, v.calls.Load())
	}
}

// A signature is remembered for an hour, its absence for less than a minute, and an inconclusive result not at all.
func TestLife(t *testing.T) {
	unverified := &world.UnverifiedError{Reason: "no signatures found"}
	for name, c := range map[string]struct {
		v    *verifierFunc
		life time.Duration // with half of the random part
	}{
		"signed":   {signs(world.Statement{Type: "t"}), DefaultTTL - DefaultTTL/20},
		"unsigned": {fails(unverified), 45 * time.Second},
		"no statement": {&verifierFunc{f: func(context.Context, world.SignatureRequest) (string, []world.Statement, error) {
			return "sha256:a", []world.Statement{}, nil
		}}, 45 * time.Second},
		"not found out":        {fails(errors.New("connection refused")), 0},
		"too large to keep":    {signs(world.Statement{Predicate: strings.Repeat("x", maxAnswer+1)}), 0},
		"statements of a size": {signs(world.Statement{Predicate: map[string]any{"a": []any{"b", 1.0, nil, true}}}), DefaultTTL - DefaultTTL/20},
	} {
		at := &clock{now: time.Unix(1e9, 0)}
		cache := New(c.v, at.options())
		ask := func() int32 {
			_, _, _ = cache.Statements(t.Context(), request(nil))
			return c.v.calls.Load()
		}
		ask()
		if c.life > 0 {
			at.now = at.now.Add(c.life - time.Second)
			if n := ask(); n != 1 {
				t.Errorf("%s: asked again after %s", name, c.life-time.Second)
			}
		}
		at.now = at.now.Add(2 * time.Second)
		if n := ask(); n != 2 {
			t.Errorf("%s: asked %d times after %s", name, n, c.life+time.Second)
		}
	}
}

// The number of answers is bounded; the most recently used one stays.
func TestSize(t *testing.T) {
	v := signs(world.Statement{Predicate: strings.Repeat("x", 4<<20-99)})
	o := (&clock{}).options()
	o.Size = 3
	cache := New(v, o)
	verify := func(who string) {
		_, _ = cache.Verify(t.Context(), request(func(r *world.SignatureRequest) { r.For = who }))
	}
	for _, who := range []string{"a", "b", "c", "a", "d", "a", "c"} {
		verify(who)
	}
	if v.calls.Load() != 4 || cache.Len() != 3 {
		t.Errorf("asked %d times, %d answers", v.calls.Load(), cache.Len())
	}
	cache = New(v, (&clock{}).options())
	for _, who := range []string{"a", "b", "c", "d", "e", "f"} {
		_, _, _ = cache.Statements(t.Context(), request(func(r *world.SignatureRequest) { r.For = who }))
	}
	if cache.Len() != 4 {
		t.Errorf("%d answers of 4 MiB are kept", cache.Len())
	}
}

func BenchmarkRemembered(b *testing.B) {
	cache := New(signs(), Options{Now: time.Now})
	r := request(func(r *world.SignatureRequest) { r.Attestor.Key.PublicKey = strings.Repeat("k", 178) })
	for b.Loop() {
		if _, err := cache.Verify(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}
