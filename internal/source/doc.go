// Package source reads policies and resources from files, directories, globs and standard input, with positions.
//
//	objects, diags := source.Load([]string{"policies/", "extra.yaml", "-"}, source.Options{Stdin: os.Stdin})
//	for _, o := range objects {
//		fmt.Println(o.Pos("spec.rules[0].name"), o.Value["kind"]) // policies/labels.yaml:9 ClusterPolicy
//	}
//
// A stream is split into documents and each document is decoded by itself, so a broken one costs only itself. Documents
// are read by a fast reader for the plain block style in which nearly all manifests are written; whatever that does not
// recognise goes to a complete YAML parser, which also words the errors. Both give the same values: those of the
// reference command line, YAML 1.1 booleans included (language reference §0.3). Large inputs are streamed: Scan hands
// documents to the caller's goroutines, which decode, judge and drop them.
//
// It does not know what a policy is, does not check fields, and never talks to the network.
//
// Floor 4: imports value, diag and budget only.
package source
