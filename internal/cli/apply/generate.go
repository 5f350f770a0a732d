package apply

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
)

// generation holds the objects that the generate rules of one policy created for one resource.
type generation struct {
	objects [][]byte // as YAML
	errs    []error
}

// generationsOf returns the work of generate rules: one change for each policy that generated objects or failed to.
func generationsOf(o policy.Outcome) ([]change, error) {
	var out []change
	of := func(p *policy.Program) *generation {
		if n := len(out); n == 0 || out[n-1].policy != p.Name {
			res := report.ResourceOf(o.Request)
			out = append(out, change{policy: p.Name, resource: res.String(), name: res.Name, generation: &generation{}})
		}
		return out[len(out)-1].generation
	}
	for i := range o.Results {
		if r := &o.Results[i]; r.Rule.Stage == policy.StageGenerate && r.Status == policy.StatusError {
			g := of(r.Program)
			g.errs = append(g.errs, errors.New(r.Message))
		}
	}
	for _, w := range o.Work {
		if w.Kind != policy.WorkGenerate || len(w.Generated) == 0 && w.Err == nil {
			continue
		}
		g := of(w.Program)
		for _, made := range w.Generated {
			text, err := encodeObject(made.Object)
			if err != nil {
				return out, err
			}
			g.objects = append(g.objects, text)
		}
		if w.Err != nil {
			g.errs = append(g.errs, w.Err)
		}
	}
	return out, nil
}

// printGeneration writes the generation to the text output.
func (c *change) printGeneration(w io.Writer, toFiles, piped bool) {
	g := c.generation
	for _, err := range g.errs {
		fmt.Fprintf(terminal.LegibleWriter(w), "\nerror while applying generate policy %s -> resource %s\nerror: %s", c.policy, c.resource, err)
	}
	if len(g.objects) == 0 {
		return
	}
	if !toFiles {
		if !piped {
			fmt.Fprintf(terminal.LegibleWriter(w), "\npolicy %s applied to %s:", c.policy, c.resource)
		}
		for _, o := range g.objects {
			fmt.Fprintf(w, "\n%s\n---\n", o)
		}
	}
	fmt.Fprint(w, "\n\nGenerate:\nGeneration completed successfully.")
}

// outputName returns the name of the file for the change in the directory of --output.
func (c *change) outputName() string {
	name := c.name + "-mutated.yaml"
	if c.generation != nil {
		name = c.policy + "-generated.yaml"
	}
	return filepath.Base(withoutSeparators.Replace(name))
}

// outputObjects returns the objects of the change in the order in which --output writes them.
func (c *change) outputObjects() [][]byte {
	if c.generation != nil {
		return c.generation.objects
	}
	return append([][]byte{c.object}, c.targets...)
}
