package origin

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/seal"
	"ephor.invalid/ephor/internal/updaterequest"
)

// Labels select the objects of rules, and marks or the record prove them, since every user who may write an object may write its labels.
// Nothing is done because of a label unless a mark or the record confirms it, or the rule, evaluated for a trigger that exists in the API
// server, generates exactly the object with the label.

// Keys returns the keys of marks. With fresh it includes keys that another replica has just created.
type Keys func(ctx context.Context, fresh bool) (*seal.Keyring, error)

// Keyring returns the keys of marks.
func (o *Objects) Keyring(ctx context.Context, fresh bool) (*seal.Keyring, error) {
	if o.Keys == nil {
		return nil, errors.New("there are no keys for the marks of generated objects")
	}
	ring, err := o.Keys(ctx, fresh)
	if err != nil {
		return nil, fmt.Errorf("the marks of generated objects cannot be checked: %w", err)
	}
	return ring, nil
}

// Claim returns the origin of an object: the content of its mark or, if it has no mark, of its entry in the record. ok is false if neither
// proves anything about this object. err is a failure to read the keys, which says nothing about the object.
func (o *Objects) Claim(ctx context.Context, u *unstructured.Unstructured) (c mark.Claim, ok bool, err error) {
	if c, ok, err = o.marked(ctx, u); ok || err != nil {
		return c, ok, err
	}
	if e, known := o.Record.Object(string(u.GetUID())); known && e.Object == IdentityOf(u) {
		return e.Claim, true, nil
	}
	return c, false, nil
}

// marked reads the mark of an object.
func (o *Objects) marked(ctx context.Context, u *unstructured.Unstructured) (c mark.Claim, ok bool, err error) {
	text := u.GetAnnotations()[mark.Annotation]
	if text == "" {
		return c, false, nil
	}
	for _, fresh := range []bool{false, true} {
		ring, err := o.Keyring(ctx, fresh)
		if err != nil {
			return c, false, err
		}
		c, err = mark.Read(ring, text, IdentityOf(u))
		if !errors.Is(err, seal.ErrUnknownKey) {
			return c, err == nil, nil
		}
	}
	return c, false, nil
}

// Stamp adds to an object, before it is written, what shows its origin: the labels of the rule, unless the evaluation sets them, and the mark.
func (o *Objects) Stamp(ctx context.Context, planned *unstructured.Unstructured, p *policy.Program, r *policy.Rule, trigger kyvernov2.ResourceSpec, source *policy.Source) error {
	if bareLabels(p) {
		label(planned, p, r.Name, trigger, source)
	}
	ring, err := o.Keyring(ctx, false)
	if err == nil {
		setMark(planned, ring, ClaimFor(p, r, trigger, source))
	}
	return err
}

func setMark(u *unstructured.Unstructured, ring *seal.Keyring, c mark.Claim) {
	u.SetAnnotations(with(u.GetAnnotations(), map[string]string{mark.Annotation: mark.Make(ring, c, IdentityOf(u))}))
}

// ClaimFor returns the origin of an object that a rule generates for a trigger, from a source if it is a copy.
func ClaimFor(p *policy.Program, r *policy.Rule, trigger kyvernov2.ResourceSpec, source *policy.Source) mark.Claim {
	c := updaterequest.ClaimOf(p.Identity(), r.Name)
	c.Trigger = mark.Object{APIVersion: trigger.APIVersion, Kind: trigger.Kind, Namespace: trigger.Namespace, Name: trigger.Name, UID: string(trigger.UID)}
	c.Asked = r.AsksRequester()
	if source != nil {
		c.Source = source.UID
	}
	return c
}

// IdentityOf returns the identity of an object with its UID.
func IdentityOf(u *unstructured.Unstructured) mark.Object {
	return mark.Object{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID())}
}

// IsOf reports whether the claim names the rule of the policy.
func IsOf(c mark.Claim, id policy.ID, rule string) bool {
	return c.Rule == rule && updaterequest.IDOf(c) == id
}

// IsFor reports whether the claim names the rule and the trigger. It identifies a trigger without a name by its UID.
func IsFor(c mark.Claim, id policy.ID, rule string, t kyvernov2.ResourceSpec) bool {
	a, b := schema.FromAPIVersionAndKind(c.Trigger.APIVersion, c.Trigger.Kind), schema.FromAPIVersionAndKind(t.APIVersion, t.Kind)
	return IsOf(c, id, rule) && c.Trigger.UID != "" && c.Trigger.UID == string(t.UID) && a.GroupKind() == b.GroupKind() &&
		(t.Name == "" || t.Name == c.Trigger.Name && t.Namespace == c.Trigger.Namespace)
}
