// Package convert rewrites classic policies as policies in CEL.
//
//	rules, diags := convert.Policy(clusterPolicy, schemas)
//	for _, r := range rules {
//		fmt.Println(r.Name, r.Policy["metadata"], r.Reasons, r.Notes)
//	}
//
// Each rule becomes one policy: a ValidatingPolicy, MutatingPolicy, GeneratingPolicy or ImageValidatingPolicy; a cleanup policy becomes a
// DeletingPolicy. A rule is converted as a whole or not at all: a part that has no equivalent in CEL, or that this package cannot convert,
// becomes a Reason with its path. A Note describes how the behaviour of the converted policy differs.
//
// The package only generates policies; it does not evaluate them. `ephor convert --prove` compares the two policies on resources.
//
// Floor 2: imports api and packages of the classic language.
package convert
