// Package source reads policies and resources from files, directories, globs and standard input, with positions.
//
//	objects, diags := source.Load([]string{"policies/", "extra.yaml", "-"}, source.Options{Stdin: os.Stdin})
//	for _, o := range objects {
//		fmt.Println(o.Pos("spec.rules[0].name"), o.Value["kind"]) // policies/labels.yaml:9 ClusterPolicy
//	}
//
// A stream is split into documents and each document is decoded by itself, so a broken one costs only itself and the
// caller's goroutines can share the work: they decode, judge and drop documents one by one. The values are those of the
// reference command line, YAML 1.1 booleans included (language reference §0.3).
//
// It does not know what a policy is, does not check fields, and never talks to the network.
//
// Floor 4: imports value, diag and budget only.
package source
