package env

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/world"
)

// Verifier answers queries about signatures and attestations of images. It belongs to one evaluation. An error is a *MistakeError if
// the expression asks for something impossible; any other error means that there is no answer.
type Verifier interface {
	// Signed returns how many of the named attestors signed the image.
	Signed(ctx context.Context, image string, attestors []string) (int, error)
	// Attested returns how many of the named attestors signed the attestation of that name.
	Attested(ctx context.Context, image, attestation string, attestors []string) (int, error)
	// Payload returns the content of the attestation of that name.
	Payload(ctx context.Context, image, attestation string) (any, error)
	// Payloads returns the contents of all attestations of that name that the attestor signed.
	Payloads(ctx context.Context, image, attestation, attestor string) ([]any, error)
}

// libPolicyImageData queries world.Images with the credentials of the policy.
var libPolicyImageData = &Library{
	Name:  "getImageData",
	Doc:   "Image metadata from registries, read with the credentials of the policy.",
	Kinds: kindsOf(ImageValidating),
	Asks:  true,
	Functions: []Function{{
		Names:     []string{"getImageData"},
		Overloads: []Overload{{Args: []*cel.Type{cel.StringType}, Result: cel.DynType}},
		Doc:       "Returns the same fields as image.getMetadata.",
		Example:   "getImageData('ghcr.io/team/app:1').config.config.User",
		Result:    `"1000"`,
		cost:      queryCost,
		call:      getMetadata,
	}},
}

// libImageVerify queries Input.Verifier.
var libImageVerify = &Library{
	Name:  LibraryImageVerify,
	Doc:   "Verification of image signatures and attestations. The policy defines the attestors and attestations: attestors.⟨name⟩, attestations.⟨name⟩.",
	Kinds: kindsOf(ImageValidating),
	Asks:  true,
	Functions: []Function{
		{
			Names:     []string{"verifyImageSignatures"},
			Overloads: []Overload{{Args: []*cel.Type{cel.StringType, listOfAny}, Result: cel.IntType}},
			Doc:       "Returns how many of the attestors signed the image; 0 if matchImageReferences do not match the image.",
			Example:   "verifyImageSignatures('ghcr.io/team/app:1', [attestors.team])",
			Result:    `1`,
			cost:      queryCost,
			call: func(e *Scope, args []ref.Val) ref.Val {
				return e.count(args, func(v Verifier, by []string) (int, error) {
					return v.Signed(e.Context(), values.Text(args[0]), by)
				})
			},
		},
		{
			Names:     []string{"verifyAttestationSignatures"},
			Overloads: []Overload{{Args: []*cel.Type{cel.StringType, cel.StringType, listOfAny}, Result: cel.IntType}},
			Doc:       "Returns how many of the attestors signed the attestation of the image; 0 if matchImageReferences do not match the image.",
			Example:   "verifyAttestationSignatures('ghcr.io/team/app:1', attestations.sbom, [attestors.team])",
			Result:    `1`,
			cost:      queryCost,
			call: func(e *Scope, args []ref.Val) ref.Val {
				return e.count(args, func(v Verifier, by []string) (int, error) {
					return v.Attested(e.Context(), values.Text(args[0]), values.Text(args[1]), by)
				})
			},
		},
		{
			Names:     []string{"extractPayload"},
			Overloads: []Overload{{Args: []*cel.Type{cel.StringType, cel.StringType}, Result: cel.DynType}},
			Doc:       "Returns the content of the attestation: the in-toto statement (call verifyAttestationSignatures first), or the JSON document that refers to the image.",
			Example:   "extractPayload('ghcr.io/team/app:1', attestations.sbom).bomFormat",
			Result:    `"CycloneDX"`,
			cost:      queryCost,
			call: func(e *Scope, args []ref.Val) ref.Val {
				v, err := e.verifier()
				if err != nil {
					return e.unverified(err)
				}
				payload, err := v.Payload(e.Context(), values.Text(args[0]), values.Text(args[1]))
				if err != nil {
					return e.unverified(err)
				}
				return e.answer(payload)
			},
		},
		{
			Names:     []string{"extractPayloads"},
			Overloads: []Overload{{Args: []*cel.Type{cel.StringType, cel.StringType, cel.StringType}, Result: cel.ListType(cel.DynType)}},
			Doc:       "Returns the contents of all attestations that the attestor signed, in the form of extractPayload; an empty list if there are none. Only Ephor has this function.",
			Example:   "extractPayloads('ghcr.io/team/app:1', attestations.sbom, attestors.team).all(scan, scan.predicate.critical == 0)",
			Result:    `true`,
			cost:      queryCost,
			call: func(e *Scope, args []ref.Val) ref.Val {
				v, err := e.verifier()
				if err != nil {
					return e.unverified(err)
				}
				payloads, err := v.Payloads(e.Context(), values.Text(args[0]), values.Text(args[1]), values.Text(args[2]))
				if err != nil {
					return e.unverified(err)
				}
				return e.answer(payloads)
			},
		},
	},
}

// listOfAny is the type of a list of attestors.
var listOfAny = cel.ListType(cel.DynType)

// verifier returns Input.Verifier, or an error if nothing can be verified.
func (e *Scope) verifier() (Verifier, error) {
	if e.Verifier == nil {
		return nil, fmt.Errorf("image verification is %w", world.ErrUnavailable)
	}
	return e.Verifier, nil
}

// count calls a function that counts attestors. The attestors are the last argument.
func (e *Scope) count(args []ref.Val, how func(Verifier, []string) (int, error)) ref.Val {
	v, err := e.verifier()
	if err != nil {
		return e.unverified(err)
	}
	var names []string
	for it := args[len(args)-1].(traits.Lister).Iterator(); it.HasNext() == types.True; {
		name, ok := it.Next().(types.String)
		if !ok {
			return values.Errorf("invalid arg %d: an element of the list is not an attestor", len(args)-1)
		}
		names = append(names, string(name))
	}
	n, err := how(v, names)
	if err != nil {
		return e.unverified(err)
	}
	return types.Int(n)
}

// unverified returns the value of a verification that failed with an error.
func (e *Scope) unverified(err error) ref.Val {
	if m := (*MistakeError)(nil); errors.As(err, &m) {
		return types.WrapErr(m)
	}
	if x := (*EvaluationError)(nil); errors.As(err, &x) {
		return types.WrapErr(x.Err) // the error of an expression in an attestor
	}
	return e.unanswered("failed to verify the image", err)
}
