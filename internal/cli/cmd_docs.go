package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// docsOptions are the flags of docs.
type docsOptions struct {
	output    string
	website   bool
	autogen   bool
	noDate    bool
	markdown  bool
	generated time.Time
}

func newDocs() *cobra.Command {
	o := docsOptions{}
	cmd := &cobra.Command{
		Use:   "docs",
		Short: "Write the command reference as Markdown",
		Long:  "Docs writes one Markdown file per command to a directory.",
		Example: "  ephor docs -o docs/commands\n" +
			"  ephor docs -o website/content --website --noDate",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.generated = time.Now()
			if err := os.MkdirAll(o.output, 0o750); err != nil {
				return err
			}
			return o.write(cmd.Root())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "directory to which the files are written")
	f.BoolVar(&o.website, "website", false, "start each file with a title and a weight, for a website")
	f.BoolVar(&o.autogen, "autogenTag", true, "end each file with a note that it was generated")
	f.BoolVar(&o.noDate, "noDate", false, "omit the date from this note")
	f.BoolVar(&o.markdown, "markdownLinks", false, "include the suffix .md in links to the files of other commands")
	if err := cmd.MarkFlagRequired("output"); err != nil {
		panic(err) // the flag was added above
	}
	return cmd
}

// write writes the pages of the command and of its subcommands.
func (o *docsOptions) write(cmd *cobra.Command) error {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && !c.IsAdditionalHelpTopicCommand() {
			if err := o.write(c); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(o.output, pageName(cmd)+".md"), o.page(cmd), 0o644)
}

// pageName returns the command's path with underscores, such as ephor_create_test.
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "_") }

func (o *docsOptions) page(cmd *cobra.Command) []byte {
	cmd.InitDefaultHelpFlag()
	b := &bytes.Buffer{}
	if o.website {
		fmt.Fprintf(b, "---\ntitle: %q\nweight: 35\n---\n", cmd.CommandPath())
	}
	fmt.Fprintf(b, "## %s\n\n%s\n\n", cmd.CommandPath(), cmd.Short)
	if cmd.Long != "" {
		fmt.Fprintf(b, "### Synopsis\n\n%s\n\n", cmd.Long)
	}
	if cmd.Runnable() {
		fmt.Fprintf(b, "```\n%s\n```\n\n", cmd.UseLine())
	}
	if cmd.Example != "" {
		fmt.Fprintf(b, "### Examples\n\n```\n%s\n```\n\n", cmd.Example)
	}
	o.options(b, "### Options", cmd.NonInheritedFlags())
	o.options(b, "### Options inherited from parent commands", cmd.InheritedFlags())
	o.related(b, cmd)
	if o.autogen {
		b.WriteString("###### Auto generated")
		if !o.noDate {
			b.WriteString(" on " + o.generated.Format("2-Jan-2006"))
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func (o *docsOptions) options(b *bytes.Buffer, title string, flags *pflag.FlagSet) {
	if flags.HasAvailableFlags() {
		fmt.Fprintf(b, "%s\n\n```\n%s```\n\n", title, flags.FlagUsages())
	}
}

// related links to the parent command and to the subcommands.
func (o *docsOptions) related(b *bytes.Buffer, cmd *cobra.Command) {
	link := func(c *cobra.Command) {
		target := pageName(c)
		if !o.website || o.markdown {
			target += ".md"
		} else {
			target = "../" + target + "/"
		}
		fmt.Fprintf(b, "* [%s](%s)\t - %s\n", c.CommandPath(), target, c.Short)
	}
	children := slices.DeleteFunc(slices.Clone(cmd.Commands()), func(c *cobra.Command) bool {
		return !c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand()
	})
	if !cmd.HasParent() && len(children) == 0 {
		return
	}
	b.WriteString("### SEE ALSO\n\n")
	if cmd.HasParent() {
		link(cmd.Parent())
	}
	for _, c := range children {
		link(c)
	}
	b.WriteByte('\n')
}
