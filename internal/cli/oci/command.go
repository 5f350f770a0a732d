package oci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policyartifact"
	"ephor.invalid/ephor/internal/source"
)

// New returns the command `ephor oci`.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "oci",
		Short: "Store policies in registries and fetch them",
		Long: "Oci pushes policies to a registry as an OCI artifact, and pulls them from it. The format is that of Kyverno's commands.\n" +
			"Credentials come from the Docker configuration and from the cloud to which the registry belongs.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPush(), newPull())
	return cmd
}

func newPush() *cobra.Command {
	var reference string
	cmd := &cobra.Command{
		Use:     "push PATH...",
		Short:   "Push policies to a registry",
		Long:    "Push checks the policies in files and directories, and stores them as one artifact. It pushes nothing if a policy is invalid.",
		Example: "  ephor oci push policies/ -i ghcr.io/team/policies:1.0",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return push(cmd, args, reference) },
	}
	addReference(cmd, &reference)
	return cmd
}

func newPull() *cobra.Command {
	var reference string
	cmd := &cobra.Command{
		Use:     "pull DIRECTORY",
		Short:   "Pull policies from a registry",
		Long:    "Pull writes each policy of an artifact to the file ⟨policy⟩.yaml in the directory, which it creates if necessary. A further policy of the same name goes to ⟨policy⟩-2.yaml.",
		Example: "  ephor oci pull policies/ -i ghcr.io/team/policies:1.0",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return pull(cmd, args[0], reference) },
	}
	addReference(cmd, &reference)
	return cmd
}

func addReference(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVarP(to, "image", "i", "", "reference of the artifact: registry/repository:tag")
	if err := cmd.MarkFlagRequired("image"); err != nil {
		panic(err) // the flag was added above
	}
}

func push(cmd *cobra.Command, paths []string, reference string) error {
	objects, diags := source.Load(paths, source.Options{Stdin: terminal.Stdin(cmd.InOrStdin()), Recursive: true, Numbers: source.Exact})
	var passed load.PassedBy
	diags = passed.Files(diags)
	var files []policyartifact.File
	for _, o := range objects {
		apiVersion, _ := o.Value["apiVersion"].(string)
		if !compile.Owns(apiVersion, o.Kind()) {
			diags.Add(passed.Other(nil, o)...)
			continue
		}
		_, found := compile.Written(compile.Object{Value: o.Value, Pos: o.Pos}, family.Permissions{Documents: true})
		diags.Add(found...)
		content, err := yaml.Marshal(o.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", o.Pos(""), err)
		}
		files = append(files, policyartifact.File{APIVersion: apiVersion, Kind: o.Kind(), Name: o.Name(), Content: content})
	}
	terminal.PrintMistakes(cmd.ErrOrStderr(), diags)
	terminal.PrintNote(cmd.ErrOrStderr(), passed)
	switch {
	case diags.HasErrors():
		return terminal.End(cmd, 1)
	case len(files) == 0:
		return errors.New("there is no policy to push")
	}
	client, err := policyartifact.Machine()
	if err != nil {
		return err
	}
	out := terminal.LegibleWriter(cmd.ErrOrStderr())
	for _, f := range files {
		fmt.Fprintf(out, "Adding %s [%s]\n", spoken(f.Kind), f.Name)
	}
	fmt.Fprintf(out, "Uploading [%s]...\n", reference)
	digest, err := policyartifact.Push(cmd.Context(), client, reference, files)
	if err != nil {
		return fmt.Errorf("failed to push %s: %w", reference, err)
	}
	fmt.Fprintln(out, "Done.")
	fmt.Fprintln(cmd.OutOrStdout(), digest)
	return nil
}

// spoken returns a kind in words: ClusterPolicy becomes "cluster policy".
func spoken(kind string) string {
	var b strings.Builder
	for i, r := range kind {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func pull(cmd *cobra.Command, dir, reference string) error {
	client, err := policyartifact.Machine()
	if err != nil {
		return err
	}
	out := terminal.LegibleWriter(cmd.ErrOrStderr())
	fmt.Fprintf(out, "Downloading [%s]...\n", reference)
	files, err := policyartifact.Pull(cmd.Context(), client, reference)
	if err != nil {
		return fmt.Errorf("failed to pull %s: %w", reference, err)
	}
	taken, names := map[string]bool{}, make([]string, len(files))
	for i, f := range files {
		// The name becomes a file name. A text that is not a valid object name could lead out of the directory.
		if mistakes := validation.IsDNS1123Subdomain(f.Name); len(mistakes) > 0 {
			return fmt.Errorf("layer %d names its policy %q: %s", i, f.Name, mistakes[0])
		}
		names[i] = f.Name + ".yaml"
		for n := 2; taken[names[i]]; n++ { // policies of different kinds or namespaces may have the same name
			names[i] = fmt.Sprintf("%s-%d.yaml", f.Name, n)
		}
		taken[names[i]] = true
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for i, f := range files {
		path := filepath.Join(dir, names[i])
		fmt.Fprintf(out, "Writing %s [%s]\n", spoken(f.Kind), path)
		if err := os.WriteFile(path, f.Content, 0o600); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "Done.")
	return nil
}
