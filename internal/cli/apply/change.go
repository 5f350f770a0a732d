package apply

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/value"
)

// change is the effect of one policy's mutate rules on one resource. Objects are stored as YAML, so that the decoded objects can be
// released.
type change struct {
	policy   string
	resource string // namespace/Kind/name
	name     string // the name of the resource
	notes    []note
	applied  bool     // the rules were applied, whether they changed something or not; false after an error
	object   []byte   // the object after the rules; unchanged where they were not applied
	targets  [][]byte // the changed targets of rules that change existing objects
	// generation is set if the policy generated objects instead of changing this one.
	generation *generation
}

// note is a result of a mutate rule that the text output reports separately.
type note struct {
	status  policy.Status
	message string
}

// changeOf converts the answer of one policy's mutate rules.
func changeOf(a offline.Answer) (change, error) {
	res := report.ResourceOf(a.Request)
	c := change{policy: a.Program.Name, resource: res.String(), name: res.Name, applied: a.Object != a.Request.Object}
	failed := false
	for i := range a.Results {
		switch r := &a.Results[i]; r.Status {
		case policy.StatusSkip, policy.StatusError:
			c.notes = append(c.notes, note{r.Status, r.Message})
			failed = failed || r.Status == policy.StatusError
		default:
			c.applied = true
		}
	}
	c.applied = c.applied && !failed // a policy with an error changes nothing
	object, err := a.Object.Value()
	if err != nil {
		return c, err
	}
	if object != nil {
		if c.object, err = encodeObject(object); err != nil {
			return c, err
		}
	}
	for _, w := range a.Work {
		for _, t := range w.Targets {
			if t.After == nil {
				continue
			}
			text, err := encodeObject(t.After)
			if err != nil {
				return c, err
			}
			c.targets = append(c.targets, text)
		}
	}
	return c, nil
}

// encodeObject writes an object as YAML, indented by four spaces as in Kyverno.
func encodeObject(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(4)
	err := enc.Encode(value.WholeNumbers(v))
	if err == nil {
		err = enc.Close()
	}
	return b.Bytes(), err
}

// silent reports whether print writes nothing: no rule was applied, and the object is not for a pipe.
func (c *change) silent(toFiles, piped bool) bool {
	return c.generation == nil && !c.applied && len(c.notes) == 0 && (toFiles || !piped)
}

// print writes the change to the text output. toFiles means that objects are written to files instead; piped omits the
// lines between objects, and writes objects to which no rule was applied, too.
func (c *change) print(w io.Writer, toFiles, piped bool) {
	if c.generation != nil {
		c.printGeneration(w, toFiles, piped)
		return
	}
	for _, n := range c.notes {
		if n.status == policy.StatusSkip {
			fmt.Fprintf(terminal.LegibleWriter(w), "\nskipped mutate policy %s -> resource %s", c.policy, c.resource)
		} else {
			fmt.Fprintf(terminal.LegibleWriter(w), "\nerror while applying mutate policy %s -> resource %s \nerror:  %s", c.policy, c.resource, n.message)
		}
	}
	if !toFiles && (piped || c.applied || len(c.targets) > 0) { // a target for which a rule errs leaves the others changed
		if !piped {
			fmt.Fprintf(terminal.LegibleWriter(w), "\npolicy %s applied to %s:", c.policy, c.resource)
		}
		fmt.Fprintf(w, "\n%s\n---\n", c.object)
		if len(c.targets) > 0 {
			fmt.Fprint(w, "\npatched targets: \n")
			for _, t := range c.targets {
				fmt.Fprintf(w, "\n%s\n---\n", t)
			}
		}
	}
	if c.applied {
		fmt.Fprint(w, "\n\nMutation:\nMutation has been applied successfully.")
	}
}

// printUnpatched tells the user where to look when mutate rules did not apply, since the results do not say why.
func printUnpatched(w io.Writer, changes []change) {
	n := 0
	for i := range changes {
		for _, note := range changes[i].notes {
			if note.status == policy.StatusSkip {
				n++
			}
		}
	}
	switch {
	case n == 1:
		fmt.Fprintln(w, "1 mutate rule did not apply: ephor explain with the same policies and resources names the condition or anchor")
	case n > 1:
		fmt.Fprintf(w, "mutate rules did not apply %d times: ephor explain with the same policies and resources names the conditions and anchors\n", n)
	}
}

// withoutSeparators replaces the characters of a name that have a meaning in paths.
var withoutSeparators = strings.NewReplacer("/", "-", "\\", "-")

// writeChanges appends the objects to the file, or to one file for each resource in the directory.
func writeChanges(path string, changes []change) error {
	isFile := outputIsFile(path)
	for i := range changes {
		c := &changes[i]
		file := path
		if !isFile {
			file = filepath.Join(path, c.outputName())
		}
		var b []byte
		for _, o := range c.outputObjects() {
			if o != nil {
				b = append(append(b, o...), "\n---\n\n"...)
			}
		}
		if err := appendTo(file, b); err != nil {
			return fmt.Errorf("cannot write --output: %w", err)
		}
	}
	return nil
}

func appendTo(file string, b []byte) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}
