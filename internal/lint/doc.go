// Package lint finds likely mistakes in policies: text that is valid but hardly what the author meant.
//
//	findings := lint.Policy(object, lint.Options{Kinds: schema.New()})   // object: a decoded policy
//	for _, f := range findings {
//		fmt.Println(f.Check.Name, f.Path, f.Summary)
//	}
//
// A check is one file, check_<name>.go: its name, its documentation, an example that it finds, and the function that
// checks. Diagnostics from Check and Compile of the policy's family come first, as findings of the checks `error` and
// `warning`. A check reports nothing if it cannot be sure, for example about unknown kinds or names that contain
// variables.
//
// It changes nothing and evaluates no resources.
//
// Floor 4: imports floors 0–3 and schema.
package lint
