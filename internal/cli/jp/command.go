package jp

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/fixed"
)

func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jp",
		Short: "Evaluate JMESPath expressions in the dialect of policies",
		Long: "JMESPath is the language of the variables and queries in policies. These commands evaluate an expression,\n" +
			"show how it is parsed, and list the functions.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newJPQuery(), newJPParse(), newJPFunction())
	return cmd
}

func newJPQuery() *cobra.Command {
	var input string
	var files []string
	var compact, unquoted bool
	cmd := &cobra.Command{
		Use:   "query [EXPRESSION]...",
		Short: "Evaluate expressions on a YAML or JSON document",
		Long: "Query evaluates the expressions, then those of the files, each on the same document, and prints the results as JSON.\n" +
			"If the expression or the document is not given, it is read from standard input.",
		Example: "  ephor jp query -i pod.yaml 'spec.containers[].image'\n" +
			"  kubectl get pod web -o yaml | ephor jp query 'metadata.labels' -c\n" +
			"  ephor jp query -i pod.yaml -q query-file -u",
		RunE: func(cmd *cobra.Command, args []string) error {
			queries := slices.Clone(args)
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					return fmt.Errorf("failed to load file %s: %w", f, terminal.Unreadable(err))
				}
				queries = append(queries, string(b))
			}
			document, err := jpInputs(cmd, &queries, input)
			if err != nil {
				return err
			}
			env := &jmespath.Env{
				World: fixed.New(fixed.Values{}).For(world.Cluster()),
				Meter: budget.New(cmd.Context(), budget.DefaultSteps, budget.DefaultBytes),
			}
			for _, q := range queries {
				if err := jpQuery(cmd.OutOrStdout(), env, q, document, compact, unquoted); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&input, "input", "i", "", "file with the document, YAML or JSON")
	f.StringSliceVarP(&files, "query", "q", nil, "file with an expression (repeat it, or separate by commas)")
	f.BoolVarP(&compact, "compact", "c", false, "print each result on one line")
	f.BoolVarP(&unquoted, "unquoted", "u", false, "print strings without quotes")
	return cmd
}

// jpInputs reads missing arguments from standard input, and reads the document.
func jpInputs(cmd *cobra.Command, queries *[]string, input string) (any, error) {
	if len(*queries) == 0 && input == "" {
		return nil, errors.New("at least one query or input object is required")
	}
	name, text := input, ""
	if input != "" {
		b, err := os.ReadFile(input)
		if err != nil {
			return nil, fmt.Errorf("failed to load file %s: %w", input, terminal.Unreadable(err))
		}
		text = string(b)
	}
	if len(*queries) == 0 || input == "" {
		what := "Enter input object and hit Ctrl+D."
		if input != "" {
			what = "Enter a jmespath expression and hit Ctrl+D."
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "Reading from terminal input.\n%s\n", what)
		b, err := io.ReadAll(cmd.InOrStdin())
		if err != nil {
			return nil, err
		}
		if input == "" {
			name, text = "-", string(b)
		} else {
			*queries = append(*queries, string(b))
		}
	}
	if len(source.Split(name, text)) == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: the document is empty (expressions are evaluated on null)\n", name)
	}
	return decodeDocument(name, text)
}

// decodeDocument decodes a text that holds one document in YAML or JSON. Every number becomes a float, as in the
// context of a policy. An empty text is null.
func decodeDocument(name, text string) (any, error) {
	docs := source.Split(name, text)
	if len(docs) > 1 {
		return nil, fmt.Errorf("%s holds %d documents, one is expected", name, len(docs))
	}
	for _, d := range docs {
		v, diags := d.Value(source.Floats)
		return v, diags.Err()
	}
	return nil, nil
}

func jpQuery(w io.Writer, env *jmespath.Env, query string, document any, compact, unquoted bool) error {
	expr, err := jmespath.Compile(query)
	if err != nil {
		return fmt.Errorf("failed to compile JMESPath: %s, error: %w", query, err)
	}
	result, err := expr.Search(env, document)
	if err != nil {
		return fmt.Errorf("error evaluating JMESPath expression: %s", jmespath.Plain(err))
	}
	fmt.Fprintf(w, "# %s\n", query)
	if s, ok := result.(string); ok && unquoted {
		_, err := fmt.Fprintln(w, s)
		return err
	}
	text := value.JSON(result)
	if !compact {
		text = terminal.Indented(text)
	}
	_, err = fmt.Fprintln(w, text)
	return err
}

func newJPParse() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "parse [EXPRESSION]...",
		Short: "Show how expressions are parsed",
		Long:  "Parse prints the syntax tree of each expression, or the position of the syntax error. Without an expression it reads one from standard input.",
		Example: "  ephor jp parse 'request.object.metadata.name | to_upper(@)'\n" +
			"  ephor jp parse -f query-file",
		RunE: func(cmd *cobra.Command, args []string) error {
			queries := slices.Clone(args)
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					return fmt.Errorf("failed to load file %s: %w", f, terminal.Unreadable(err))
				}
				queries = append(queries, string(b))
			}
			if len(queries) == 0 {
				fmt.Fprint(cmd.ErrOrStderr(), "Reading from terminal input.\nEnter a jmespath expression and hit Ctrl+D.\n")
				b, err := io.ReadAll(cmd.InOrStdin())
				if err != nil {
					return err
				}
				queries = append(queries, string(b))
			}
			for _, q := range queries {
				tree, err := jmespath.Parse(q)
				if syntax := (*jmespath.SyntaxError)(nil); errors.As(err, &syntax) {
					return fmt.Errorf("%w\n%s", err, syntax.Highlight())
				}
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "# %s\n%s\n", q, tree.Dump())
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVarP(&files, "file", "f", nil, "file with an expression (repeat it, or separate by commas)")
	return cmd
}

func newJPFunction() *cobra.Command {
	return &cobra.Command{
		Use:   "function [NAME]...",
		Short: "List the functions that policies have in addition to those of JMESPath",
		Long: "Function prints the name, signature and description of each function. Functions of standard JMESPath are shown only\n" +
			"when they are named. The reference documentation (docs/reference/functions.md) also has examples.",
		Example: "  ephor jp function\n  ephor jp function truncate parse_yaml",
		ValidArgsFunction: func(*cobra.Command, []string, string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			for _, f := range jmespath.Functions() {
				names = append(names, cobra.CompletionWithDesc(f.Name, f.Signature()))
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			var b strings.Builder
			for _, f := range jmespath.Functions() {
				if len(names) == 0 && f.Builtin || len(names) > 0 && !slices.Contains(names, f.Name) {
					continue
				}
				fmt.Fprintf(&b, "Name: %s\n  Signature: %s\n  Note:      %s\n\n", f.Name, f.Signature(), f.Doc)
			}
			for _, name := range names {
				if !slices.ContainsFunc(jmespath.Functions(), func(f jmespath.Function) bool { return f.Name == name }) {
					fmt.Fprintf(cmd.ErrOrStderr(), "Warning: there is no function %s; `%s` without names lists all functions\n", name, cmd.CommandPath())
				}
			}
			_, err := io.WriteString(cmd.OutOrStdout(), b.String())
			return err
		},
	}
}
