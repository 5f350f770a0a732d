package source

import (
	"context"
	"strings"

	"ephor.invalid/ephor/internal/policyartifact"
)

// IsArtifact reports whether the path refers to policies in a registry: oci://registry/repository:tag.
func IsArtifact(path string) bool { return strings.HasPrefix(path, policyartifact.Scheme) }

// artifact adds the policies of an artifact, each as a separate file below the artifact's path.
func (f *finder) artifact(path string) {
	if f.seen[path] {
		return
	}
	f.seen[path] = true
	ctx := f.options.Context
	if ctx == nil {
		ctx = context.Background()
	}
	client, err := policyartifact.Machine()
	if err != nil {
		f.fail(path, "", "%v", err)
		return
	}
	files, err := policyartifact.Pull(ctx, client, strings.TrimPrefix(path, policyartifact.Scheme))
	if err != nil {
		f.fail(path, "check the reference: oci://registry/repository:tag", "%v", err)
		return
	}
	for _, file := range files {
		f.inputs = append(f.inputs, Input{Name: path + "/" + file.Name + ".yaml", Named: true, text: string(file.Content), read: true})
	}
}
