package reports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/wildcard"
)

// reportSource selects the source of reports: a cluster, or files.
type reportSource struct {
	files               []string
	kubeconfig, context string
	// namespaces are the requested namespaces. If the list is empty or contains a wildcard, all namespaces are read.
	namespaces []string
}

func (o *reportSource) addFlags(f *pflag.FlagSet) {
	f.VarP(terminal.Paths(&o.files), "filename", "f", "read reports from these files, directories, or - for standard input, instead of the cluster (repeat it, or separate by commas)")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster")
	f.StringVar(&o.context, "context", "", "context of the kubeconfig to use")
}

// reportPage is the number of reports in a page. A report has some kilobytes, and one page is in memory at a time.
const reportPage = 500

// read passes all reports to add, one by one. The diagnostics name the reports that could not be read.
func (o *reportSource) read(ctx context.Context, stdin io.Reader, add func(compliance.Report)) (diag.List, error) {
	if len(o.files) > 0 {
		return reportDocuments(ctx, o.files, stdin, add), nil
	}
	c, err := remote.Open(o.kubeconfig, o.context, false)
	if err != nil {
		return nil, fmt.Errorf("failed to reach the cluster (%w)", err)
	}
	return o.readCluster(ctx, c, add)
}

// readCluster reads the reports of a cluster page by page. While a cluster changes from one API group of reports to the
// other, a resource may have a report in each. Then the report of openreports.io is used, since the cluster is configured
// to write it.
func (o *reportSource) readCluster(ctx context.Context, c *remote.Cluster, add func(compliance.Report)) (diag.List, error) {
	var diags diag.List
	var served remote.Query
	for _, group := range []string{"openreports.io", "wgpolicyk8s.io"} {
		served.Add(c.Kinds.Wanted(policy.Target{Group: group, Version: "*", Kind: "*"}))
	}
	kinds, unlisted := served.Kinds, served.Unlisted
	if len(kinds) == 0 {
		if unlisted != nil {
			return nil, unlisted
		}
		return nil, errors.New("the cluster has no policy reports: neither wgpolicyk8s.io nor openreports.io is served")
	}
	type key struct{ namespace, name string }
	seen := map[key]bool{}
	read := func(kinds []discovery.Resource, namespace string) {
		c.List(ctx, remote.Query{Kinds: kinds, Unlisted: unlisted, Namespace: namespace, Page: reportPage}, func(p remote.Page) {
			for _, object := range p.Objects {
				if !compliance.IsReport(object.Value) {
					continue
				}
				addReport(object, func(r compliance.Report) {
					k := key{r.Namespace, r.Name}
					if !seen[k] {
						add(r)
					}
					if p.Kind.Group == "openreports.io" {
						seen[k] = true
					}
				}, &diags)
			}
			if p.Err != nil {
				diags.Errorf("", "%s", p.Err)
				diags.Hint("its reports are missing")
			}
		})
	}
	if len(o.namespaces) == 0 || slices.ContainsFunc(o.namespaces, wildcard.Has) {
		read(kinds, "")
		return diags, ctx.Err()
	}
	for _, namespace := range o.namespaces {
		read(remote.InScope(kinds, namespace, false), namespace)
	}
	return diags, ctx.Err()
}

// reportDocuments reads the reports in files and warns of other objects.
func reportDocuments(ctx context.Context, paths []string, stdin io.Reader, add func(compliance.Report)) diag.List {
	objects, diags := source.Load(paths, source.Options{Stdin: stdin, Recursive: true, Numbers: source.Exact, Context: ctx})
	for _, object := range objects {
		if !compliance.IsReport(object.Value) {
			diags.Add(passedOver(object, "a report"))
			continue
		}
		addReport(object, add, &diags)
	}
	return diags
}

// passedOver returns the warning about an object that is not what the command reads.
func passedOver(object source.Object, wanted string) diag.Diagnostic {
	apiVersion, _ := object.Value["apiVersion"].(string)
	return diag.Diagnostic{
		Severity: diag.Warning, Pos: object.Pos("kind"), Hint: "it is passed over",
		Summary: fmt.Sprintf("%q is not %s", strings.TrimSpace(apiVersion+" "+object.Kind()), wanted),
	}
}

// addReport passes on a report, and adds its mistakes with their positions.
func addReport(object source.Object, add func(compliance.Report), diags *diag.List) {
	r, found := compliance.Decode(object.Value)
	for _, d := range found {
		d.Pos = object.Pos(d.Path)
		diags.Add(d)
	}
	add(r)
}
