package corpus

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/value"
)

// Case is one case, decoded in both ways.
type Case struct {
	Name, File string
	Archive    *txtar.Archive
	// Policies, Resources and World are YAML documents as JSON texts; Old is empty for a creation.
	Policies, Resources, World []string
	Old                        string
	// Namespaces are the labels of namespaces.
	Namespaces map[string]map[string]string
	// Want and WantFloat are the expected results; WantFloat equals Want unless the case has its own section.
	Want, WantFloat string
	TwoWants        bool
}

// Load reads the cases below root.
func Load(root string) ([]*Case, error) {
	var out []*Case
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".txtar" {
			return err
		}
		c, err := read(root, file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, c)
		return nil
	})
	return out, err
}

func read(root, file string) (*Case, error) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		return nil, err
	}
	relative, err := filepath.Rel(root, file)
	if err != nil {
		return nil, err
	}
	c := &Case{Name: strings.TrimSuffix(filepath.ToSlash(relative), ".txtar"), File: file, Archive: archive}
	if len(bytes.TrimSpace(archive.Comment)) == 0 {
		return nil, fmt.Errorf("the comment does not say which behaviour it shows")
	}
	for _, f := range archive.Files {
		switch f.Name {
		case "policy.yaml":
			c.Policies, err = documents(f.Data)
		case "resource.yaml":
			c.Resources, err = documents(f.Data)
		case "world.yaml":
			c.World, err = documents(f.Data)
		case "old.yaml":
			var raw []byte
			raw, err = yaml.YAMLToJSON(f.Data)
			c.Old = string(raw)
		case "namespaces.yaml":
			err = yaml.Unmarshal(f.Data, &c.Namespaces)
		case "want":
			c.Want = string(f.Data)
		case "want.float":
			c.WantFloat, c.TwoWants = string(f.Data), true
		default:
			err = fmt.Errorf("unknown section")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	c.normalise()
	if !c.TwoWants {
		c.WantFloat = c.Want
	}
	return c, nil
}

// Save writes the want sections.
func (c *Case) Save(want, wantFloat string) error {
	var files []txtar.File
	for _, f := range c.Archive.Files {
		if f.Name != "want" && f.Name != "want.float" {
			files = append(files, f)
		}
	}
	files = append(files, txtar.File{Name: "want", Data: []byte(want)})
	if want != wantFloat {
		files = append(files, txtar.File{Name: "want.float", Data: []byte(wantFloat)})
	}
	c.Archive.Files = files
	return os.WriteFile(c.File, txtar.Format(c.Archive), 0o644)
}

// documents splits YAML into its documents, as JSON.
func documents(text []byte) ([]string, error) {
	var out []string
	for _, part := range strings.Split("\n"+string(text), "\n---") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		raw, err := yaml.YAMLToJSON([]byte(part))
		if err != nil {
			return nil, err
		}
		out = append(out, string(raw))
	}
	return out, nil
}

// object decodes a document of the case, with its numbers as in the cluster or as on the command line.
func object(text string, floats bool) map[string]any {
	decode := value.DecodeJSON
	if floats {
		decode = value.DecodeJSONFloat
	}
	v, err := decode([]byte(text))
	if err != nil {
		panic(err) // the text was converted from YAML, so this cannot fail
	}
	m, _ := v.(map[string]any)
	return m
}

// normalise makes the change to resources that the API server would make, and the command line makes: an object of a
// namespaced kind without a namespace is in the namespace default.
func (c *Case) normalise() {
	for i, text := range c.Resources {
		o := object(text, false)
		source.Normalise(o)
		c.Resources[i] = value.JSON(o)
	}
	if c.Old != "" {
		o := object(c.Old, false)
		source.Normalise(o)
		c.Old = value.JSON(o)
	}
}
