// Package convert rewrites classic policies as policies in CEL.
//
//	rules, diags := convert.Policy(clusterPolicy, schemas)
//	for _, r := range rules {
//		fmt.Println(r.Name, r.Policy["metadata"], r.Reasons, r.Notes)
//	}
//
// Each rule becomes one policy: a ValidatingPolicy, MutatingPolicy, GeneratingPolicy or ImageValidatingPolicy; a cleanup policy becomes a DeletingPolicy. A rule
// is converted as a whole or not at all: what CEL cannot say, or what this package does not know how to say, is a Reason with its path.
// A Note names what the converted policy does in another way.
//
// The package makes text and evaluates nothing. `ephor convert --prove` compares the two policies on resources.
//
// Floor 2: imports api and packages of the classic language.
package convert
