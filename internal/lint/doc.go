// Package lint finds likely mistakes in policies: what is no error, but hardly what the author meant.
//
//	findings := lint.Policy(object, lint.Options{Kinds: schema.New()})   // object: a decoded policy
//	for _, f := range findings {
//		fmt.Println(f.Check.Name, f.Path, f.Summary)
//	}
//
// A check is one file, check_<name>.go: its name, its documentation, an example that it finds, and the function that
// looks. What Check and Compile of the policy's family find comes first, as findings of the checks `error` and
// `warning`. A check says nothing where it cannot be sure: of kinds that it does not know, of names that hold variables.
//
// It changes nothing and evaluates no resources.
//
// Floor 4: imports floors 0–3 and schema.
package lint
