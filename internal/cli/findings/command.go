package findings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/lint"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/value"
)

// options are the flags of lint.
type options struct {
	policies []string
	crds     []string
	format   string
	strict   bool
	sarif    string // the path of the file
	version  string // the version of this program, for SARIF
	git      source.Git
	server   load.ServerFlag
	live     live
}

// New returns the command `ephor lint`. version is the version of this program.
func New(version string) *cobra.Command {
	o := &options{version: version}
	cmd := &cobra.Command{
		Use:   "lint POLICY...",
		Short: "Find errors and likely mistakes in policies",
		Long: "Lint checks policies as admission does, and also finds what is valid but probably unintended: misspelt kinds, fields that no\n" +
			"matched kind has, unused context entries, rules that are never evaluated, kinds with wildcards. The exit code is 1 when there are\n" +
			"errors, with --strict also when there are warnings.",
		Example: "  ephor lint policies/\n" +
			"  ephor lint policies/ --crd-paths crds/ --strict\n" +
			"  ephor lint policies/ -o sarif > lint.sarif\n" +
			"  ephor lint https://github.com/team/policies/main",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.policies = args
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	f.Var(terminal.Paths(&o.crds), "crd-paths", "CustomResourceDefinitions of the kinds whose fields are checked: files or directories (repeat it, or separate by commas)")
	f.StringVar(&o.sarif, "sarif", "", "also write the findings to this file in SARIF format, which code hosts show next to the changed lines")
	f.StringVarP(&o.format, "output", "o", "", "json or sarif instead of text")
	terminal.Choices(cmd, "output", "json", "sarif")
	f.BoolVar(&o.strict, "strict", false, "also exit with 1 for warnings")
	f.StringVarP(&o.git.Branch, "git-branch", "b", "", "branch of git repositories; the rest of a URL is then a directory. Without this flag the rest of a URL is the branch (default main)")
	f.StringVar(&o.git.Username, "username", "", "user name for git repositories")
	o.server.AddFlag(f, "the newest")
	o.live.addFlags(f)
	f.StringVar(&o.git.Password, "password", "", "password or token for git repositories")
	return cmd
}

func (o *options) run(cmd *cobra.Command) error {
	if len(o.policies) == 0 {
		return errors.New("require policy: name files or directories")
	}
	if o.format != "" && o.format != "json" && o.format != "sarif" {
		return fmt.Errorf("invalid output format %q, expected json or sarif", o.format)
	}
	server, err := o.server.Version(nil)
	if err == nil {
		err = o.live.open()
	}
	if err != nil {
		return err
	}
	stdin := terminal.Stdin(cmd.InOrStdin())
	kinds, diags := o.kinds()
	kinds = kinds.At(server)
	objects, moreDiags := source.Load(o.policies, source.Options{Stdin: stdin, Recursive: true, Numbers: source.Exact, Git: &o.git})
	passed := load.PassedBy{Named: true}
	diags.Add(passed.Files(moreDiags)...)
	for i := range diags {
		if diags[i].Code == diag.HelmTemplate { // it has a name of its own: hooks name all files of a commit
			diags[i].Severity = diag.Warning
		}
	}
	var findings []lint.Finding
	policies, beside := 0, 0 // beside are exceptions and bindings
	var companions compile.Companions
	var given, exceptions []compile.Object
	for _, object := range objects {
		apiVersion, _ := object.Value["apiVersion"].(string)
		switch {
		case compile.Owns(apiVersion, object.Kind()):
			policies++
			given = append(given, compile.Object{Value: object.Value, Pos: object.Pos})
			findings = append(findings, lint.Policy(compile.Object{Value: object.Value, Pos: object.Pos}, lint.Options{Kinds: kinds, Permitted: family.Permissions{Server: server}})...)
		case compile.OwnsException(apiVersion, object.Kind()):
			beside++
			exceptions = append(exceptions, compile.Object{Value: object.Value, Pos: object.Pos})
		case compile.CompanionOf(apiVersion, object.Kind()) != nil:
			beside++
			diags.Add(companions.Add(compile.Object{Value: object.Value, Pos: object.Pos})...)
		default:
			diags.Add(passed.Other(nil, object)...)
		}
	}
	wide, err := o.exceptions(cmd.Context(), exceptions, given)
	if err != nil {
		return err
	}
	findings = append(findings, wide...)
	var ids []policy.ID
	for _, o := range given {
		ids = append(ids, compile.IDOf(o))
	}
	diags.Add(companions.Unattached(ids)...)
	diags.Add(load.Unstorable(given)...)
	diags.Add(terminal.Checked{Policies: policies + beside}.Unchecked(diags)...)
	var all []lint.Finding
	for _, d := range diags {
		all = append(all, lint.Found(d))
	}
	all = append(all, findings...)
	slices.SortStableFunc(all, func(a, b lint.Finding) int {
		return cmp.Or(strings.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line))
	})
	if o.sarif != "" {
		if err := os.WriteFile(o.sarif, []byte(terminal.Indented(value.JSON(sarifLog(all, o.version)))+"\n"), 0o644); err != nil {
			return err
		}
	}
	errs, warnings := 0, 0
	for _, f := range all {
		if f.Severity == diag.Error {
			errs++
		} else {
			warnings++
		}
	}
	others := passed.String()
	if others != "" {
		others = "; " + others
	}
	if err := o.print(cmd.OutOrStdout(), all, fmt.Sprintf("%s: %s, %s%s", terminal.Counted(policies, "policy", "policies"), terminal.Counted(errs, "error", "errors"), terminal.Counted(warnings, "warning", "warnings"), others)); err != nil {
		return err
	}
	if errs > 0 || o.strict && warnings > 0 {
		return terminal.End(cmd, 1)
	}
	return nil
}

// exceptions returns the findings about exceptions.
func (o *options) exceptions(ctx context.Context, exceptions, policies []compile.Object) (out []lint.Finding, err error) {
	var programs []*policy.Program
	if o.live.on {
		for _, p := range policies {
			if program, diags := compile.One(p); !diags.HasErrors() {
				programs = append(programs, program)
			}
		}
	}
	for _, x := range exceptions {
		found := lint.Exception(x)
		if err := o.live.exception(ctx, x, programs, found); err != nil {
			return nil, fmt.Errorf("count the objects of an exception: %w", err)
		}
		out = append(out, found...)
	}
	return out, nil
}

// kinds returns the kinds of Kubernetes and of the given definitions.
func (o *options) kinds() (*schema.Kinds, diag.List) {
	if len(o.crds) == 0 {
		return schema.New(), nil
	}
	objects, diags := source.Load(o.crds, source.Options{Recursive: true, Numbers: source.Exact})
	var crds []map[string]any
	for _, object := range objects {
		if object.Kind() != "CustomResourceDefinition" {
			diags.Add(diag.Diagnostic{
				Severity: diag.Warning, Pos: object.Pos("kind"), Summary: object.Kind() + " is not a CustomResourceDefinition", Hint: "it is passed over",
			})
			continue
		}
		crds = append(crds, object.Value)
	}
	return schema.New(crds...), diags
}

func (o *options) print(out io.Writer, findings []lint.Finding, summary string) error {
	w := terminal.Buffered(out)
	switch o.format {
	case "json":
		list := make([]any, len(findings))
		for i, f := range findings {
			list[i] = map[string]any{
				"check": f.Check.Name, "code": f.Code(), "severity": f.Severity.String(), "file": f.Pos.File, "line": int64(f.Pos.Line),
				"path": f.Path, "message": f.Text(), "hint": f.Hint,
			}
		}
		fmt.Fprintln(w, terminal.Indented(value.JSON(list)))
	case "sarif":
		fmt.Fprintln(w, terminal.Indented(value.JSON(sarifLog(findings, o.version))))
	default:
		for _, f := range findings {
			text := f.String()
			if code := f.Code(); code != f.Severity.String() {
				text += " [" + code + "]"
			}
			fmt.Fprintln(w, terminal.Legible(text))
		}
		fmt.Fprintln(w, summary)
	}
	return w.Flush()
}
