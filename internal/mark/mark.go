package mark

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/seal"
)

// Annotation holds the mark of a generated object.
const Annotation = names.Domain + "generated"

// domain is the domain of the seals of marks.
const domain = "generated"

// maxText bounds a mark in bytes. Names have at most 253 characters, so a longer text cannot be a mark of Ephor.
const maxText = 8 << 10

// The reasons why a mark is invalid, in addition to those of package seal.
var (
	// ErrNone is for an object without a mark.
	ErrNone = errors.New("it has no mark")
	// ErrMalformed is for a text that is not a mark.
	ErrMalformed = errors.New("the annotation " + Annotation + " is not a mark")
)

// Object names an object. The version of APIVersion is not part of its identity.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	UID        string `json:"uid,omitempty"`
}

// Claim is the content of a mark.
type Claim struct {
	// Kind is the kind of the policy. It is empty for the kinds that were supported before marks had kinds, so that existing marks
	// stay valid.
	Kind string `json:"kind,omitempty"`
	// Policy is the key of the policy: ⟨name⟩, or ⟨namespace⟩/⟨name⟩ of a namespaced one.
	Policy string `json:"policy"`
	Rule   string `json:"rule"`
	// Trigger is the object for which the rule was executed.
	Trigger Object `json:"trigger"`
	// Source is the UID of the copied object; empty if the content is in the policy.
	Source string `json:"source,omitempty"`
	// Asked: the rule depends on the requester, and a requester that met its conditions requested the work.
	Asked bool `json:"asked,omitempty"`
}

// text is the encoded form of a mark.
type text struct {
	Claim
	Seal string `json:"seal"`
}

// Make returns the mark of the object, for its Annotation. The UID of the object is not part of it.
func Make(ring *seal.Keyring, c Claim, of Object) string {
	out, err := json.Marshal(text{c, ring.Seal(domain, parts(c, of)...)})
	if err != nil {
		panic(fmt.Sprintf("a mark of strings cannot be written: %v", err)) // a struct of strings always encodes
	}
	return string(out)
}

// Read returns the claim of a mark that a key of the ring made for exactly this object. Otherwise it returns an empty claim and
// ErrNone (for an empty mark), ErrMalformed, or an error of package seal.
func Read(ring *seal.Keyring, mark string, of Object) (Claim, error) {
	t, err := parse(mark)
	if err != nil {
		return Claim{}, err
	}
	if err := ring.Check(t.Seal, domain, parts(t.Claim, of)...); err != nil {
		return Claim{}, err
	}
	return t.Claim, nil
}

// IsCurrent reports whether the mark names the current key of the ring and needs no renewal. It does not verify the mark.
func IsCurrent(ring *seal.Keyring, mark string) bool {
	t, err := parse(mark)
	return err == nil && ring.IsCurrent(t.Seal)
}

func parse(mark string) (text, error) {
	switch {
	case mark == "":
		return text{}, ErrNone
	case len(mark) > maxText:
		return text{}, ErrMalformed
	}
	var t text
	d := json.NewDecoder(strings.NewReader(mark))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return text{}, ErrMalformed
	}
	if _, err := d.Token(); err != io.EOF {
		return text{}, ErrMalformed // the text continues after the JSON value
	}
	return t, nil
}

// parts returns the parts of the seal, in a fixed order.
func parts(c Claim, of Object) []string {
	asked := "no"
	if c.Asked {
		asked = "asked"
	}
	out := []string{
		group(of.APIVersion), of.Kind, of.Namespace, of.Name,
		c.Policy, c.Rule, c.Trigger.APIVersion, c.Trigger.Kind, c.Trigger.Namespace, c.Trigger.Name, c.Trigger.UID, c.Source, asked,
	}
	if c.Kind != "" {
		out = append(out, c.Kind) // the seal covers the number of parts
	}
	return out
}

func group(apiVersion string) string {
	group, _, named := strings.Cut(apiVersion, "/")
	if !named {
		return ""
	}
	return group
}
