package load

import (
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/clivalues"
)

// Context reads a file of kind Context.
func Context(path string) (*clivalues.Context, error) {
	c, diags := clivalues.ReadContext(path)
	if diags.HasErrors() {
		return nil, terminal.Mistaken("failed to load the context", diags)
	}
	return c, nil
}
