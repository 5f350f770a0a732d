// Package source reads policies and resources from files, directories, globs, standard input, URLs, git repositories and
// registries, with positions.
//
//	objects, diags := source.Load([]string{"policies/", "extra.yaml", "-"}, source.Options{Stdin: os.Stdin})
//	for _, o := range objects {
//		fmt.Println(o.Pos("spec.rules[0].name"), o.Value["kind"]) // policies/labels.yaml:9 ClusterPolicy
//	}
//
// It splits a stream into documents and decodes each separately, so a broken document does not affect the others, and the
// caller's goroutines can share the work: they decode, evaluate and drop documents one by one. The values are those of
// Kyverno's command line, including YAML 1.1 booleans.
//
// Files must be regular files or links to such; a pipe is read if the user named it. Files, standard input, clones and the
// total content of a repository are bounded in size. From a git repository only its own files are read: a link that leads out
// of it is skipped with a warning. A password is sent to the host of the URL, and not to the target of a redirect.
//
// It does not know what a policy is and does not check fields. It uses the network only if a path is a URL; the program git
// reads git repositories, and policyartifact reads artifacts in registries (oci://…).
//
// Floor 4: imports value, diag, budget, registry and policyartifact only.
package source
