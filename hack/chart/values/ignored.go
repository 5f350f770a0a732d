package values

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// ignoredHead begins the file of values without effect.
const ignoredHead = "# Made by hack/chart from values.yaml: values that are accepted without effect, and their defaults, for NOTES.txt.\n"

// IgnoredValues lists the values that are accepted without effect, one per line: its path and its default, as JSON, which is also
// YAML.
func (v *Value) IgnoredValues() ([]byte, error) {
	out := bytes.NewBufferString(ignoredHead)
	var err error
	v.Walk(func(c *Value) {
		if !c.Ignored || err != nil {
			return
		}
		var line []byte
		if line, err = json.Marshal(map[string]any{"path": c.Path, "default": c.Default}); err == nil {
			fmt.Fprintf(out, "- %s\n", line)
		}
	})
	return out.Bytes(), err
}
