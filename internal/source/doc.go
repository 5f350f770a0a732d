// Package source reads policies and resources from files, directories, globs, standard input, URLs, git repositories and
// registries, with positions.
//
//	objects, diags := source.Load([]string{"policies/", "extra.yaml", "-"}, source.Options{Stdin: os.Stdin})
//	for _, o := range objects {
//		fmt.Println(o.Pos("spec.rules[0].name"), o.Value["kind"]) // policies/labels.yaml:9 ClusterPolicy
//	}
//
// A stream is split into documents and each document is decoded by itself, so a broken one costs only itself and the
// caller's goroutines can share the work: they decode, evaluate and drop documents one by one. The values are those of
// Kyverno's command line, YAML 1.1 booleans included.
//
// Files are regular ones, links to such included; a pipe is read where the user named it. Files, standard input, clones and
// what they hold together are bounded in size. A git repository gives its own files only: a link that leads out of it is passed
// over with a warning. A password is for the host of the URL, and not for one that a redirect leads to.
//
// It does not know what a policy is and does not check fields. It talks to the network only where a path is a URL; git
// repositories are read by the program git, artifacts of registries (oci://…) by policyartifact.
//
// Floor 4: imports value, diag, budget, registry and policyartifact only.
package source
