package loader

import (
	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
)

// Kinds of entries that this version recognises and refuses, each with a diagnostic at its field; each becomes a file
// of its own when it is built.
var (
	apiCall = unsupported("apiCall",
		"The answer of the Kubernetes API or of a service.",
		"name: pods\napiCall:\n  urlPath: /api/v1/namespaces/default/pods\n",
		func(e *kyvernov1.ContextEntry) bool { return e.APICall != nil })
	imageRegistry = unsupported("imageRegistry",
		"Manifest and configuration of an image, from its registry.",
		"name: image\nimageRegistry:\n  reference: \"{{ element.image }}\"\n",
		func(e *kyvernov1.ContextEntry) bool { return e.ImageRegistry != nil })
	globalReference = unsupported("globalReference",
		"Data cached by a GlobalContextEntry.",
		"name: deployments\nglobalReference:\n  name: deployments\n",
		func(e *kyvernov1.ContextEntry) bool { return e.GlobalReference != nil })
)

func unsupported(field, doc, example string, owns func(*kyvernov1.ContextEntry) bool) Loader {
	return Loader{Field: field, Doc: doc, Example: example, Owns: owns,
		compile: func(_ *kyvernov1.ContextEntry, in input) compiled {
			var c compiled
			c.reads.Needs.Lookups = true
			c.diags.Errorf(in.path, "context entries of kind %s are not supported by this version of Ephor yet", field)
			return c
		}}
}
