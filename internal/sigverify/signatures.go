package sigverify

import (
	"context"
	"strings"

	"ephor.invalid/ephor/internal/world"
)

// Kyverno's texts.
const (
	textNone       = "no signatures found"
	textNoMatch    = "no matching signatures: "
	textNoAttested = "no matching attestations: "
	textNoBundle   = "sigstore bundle verification failed: no matching signatures found"
	textSeparator  = "\n "
)

// signature looks for a signature of the image that satisfies the attestor. It starts at the place where earlier signatures of the repository
// were found. If that is unknown, it reads both places in parallel.
func (v *Verifier) signature(ctx context.Context, i *image, r world.SignatureRequest) error {
	a, err := v.prepare(ctx, r.Attestor, r.Registry.Confined)
	if err != nil {
		return err
	}
	var t tally
	found := 0
	of := i.subject()
	try := func(all []*artefact) bool {
		for _, f := range all {
			found++
			err := f.signs(r.Format)
			if err == nil {
				err = a.check(ctx, f, of)
			}
			if err == nil {
				return true
			}
			t.add(err)
		}
		return false
	}
	tags := func() bool {
		all, err := i.tagSignatures(ctx)
		if err != nil {
			t.add(asRefusal(err))
		}
		return try(all)
	}
	bundles := func() bool {
		all, err := i.signatureReferrers(ctx, r.Format == Bundle)
		if err != nil {
			t.add(asRefusal(err))
			return false
		}
		for _, r := range all {
			read, err := i.referred(ctx, r)
			if err != nil {
				t.add(asRefusal(err))
				continue
			}
			if try(read) {
				return true
			}
		}
		return false
	}
	key, now := i.signatures.Name(), v.options.Now()
	habit, _ := v.habits.Get(key)
	if r.Referrers {
		habit = inReferrers
	}
	switch {
	case r.Format == Bundle:
		if bundles() {
			return nil
		}
	case habit == inReferrers:
		if bundles() {
			return nil
		}
		if tags() {
			v.habits.Put(key, inTags, now.Add(keepHabits), 0)
			return nil
		}
	default:
		if habit == unknown {
			go func() { _, _ = i.referrers(ctx) }() // the code below waits for it if necessary
		}
		if tags() {
			v.habits.Put(key, inTags, now.Add(keepHabits), 0)
			return nil
		}
		if bundles() {
			v.habits.Put(key, inReferrers, now.Add(keepHabits), 0)
			return nil
		}
	}
	switch {
	case t.outage != nil:
		return t.outage
	case t.genuine != "":
		return unverified("%s", t.genuine)
	case r.Format == Bundle:
		if len(t.reasons) == 0 {
			return unverified(textNoBundle)
		}
		return unverified("%s", textNoBundle+": "+strings.Join(t.reasons, textSeparator))
	case found == 0 && len(t.reasons) == 0:
		return unverified(textNone)
	}
	return unverified("%s", textNoMatch+strings.Join(t.reasons, textSeparator))
}

// signs returns the reason why an artefact is no signature of an image in the format, or nil if it may be one. For Cosign an attestation is
// none: its signer may attest that a scan of the image failed. In the format of bundles, an attestation is all that some signers write.
func (f *artefact) signs(format string) error {
	if format == Bundle || f.statement == nil || f.statement.PredicateType == predicateSign {
		return nil
	}
	return refuse("it is not a signature of the image, but an attestation of the type %s", f.statement.PredicateType)
}

// subject returns the image as the subject of signatures.
func (i *image) subject() subject { return subject{i.digest, i.content} }

// statements returns the statements of the wanted type that the attestor signed. It ignores the statements of other signers.
func (v *Verifier) statements(ctx context.Context, i *image, r world.SignatureRequest) ([]world.Statement, error) {
	a, err := v.prepare(ctx, r.Attestor, r.Registry.Confined)
	if err != nil {
		return nil, err
	}
	all, err := i.attestations(ctx, r.Type, r.Format == Bundle)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, unverified(textNoAttested)
	}
	var t tally
	var out []world.Statement
	of := i.subject()
	for _, f := range all {
		if f.broken == nil && (f.statement == nil || f.statement.PredicateType != r.Type) {
			continue
		}
		if err := a.check(ctx, f, of); err != nil {
			t.add(err)
			continue
		}
		st, err := f.statement.decoded()
		if err != nil {
			t.add(refuse("%s", err))
			continue
		}
		out = append(out, st)
	}
	switch {
	case t.outage != nil:
		return nil, t.outage // a statement that cannot be examined may contain something that the others lack
	case len(out) > 0:
		return out, nil
	case t.genuine != "":
		return nil, unverified("%s", t.genuine)
	case len(t.reasons) > 0:
		return nil, unverified("%s", textNoAttested+strings.Join(t.reasons, textSeparator))
	}
	return nil, nil
}

// attestations returns all artefacts that may be statements of the type about the image. It reads the places in parallel.
func (i *image) attestations(ctx context.Context, kind string, bundlesOnly bool) ([]*artefact, error) {
	parts, err := each(ctx, 2, func(ctx context.Context, n int) ([]*artefact, error) {
		if n == 0 {
			if bundlesOnly {
				return nil, nil
			}
			return i.tagAttestations(ctx)
		}
		referrers, err := i.statementReferrers(ctx, kind)
		if err != nil {
			return nil, err
		}
		read, err := each(ctx, len(referrers), func(ctx context.Context, n int) ([]*artefact, error) { return i.referred(ctx, referrers[n]) })
		var out []*artefact
		for _, r := range read {
			out = append(out, r...)
		}
		return out, err
	})
	return append(parts[0], parts[1]...), err
}
