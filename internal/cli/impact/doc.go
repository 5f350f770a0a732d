// Package impact is the command `ephor impact`: what policies would have done to recorded requests and to objects that exist.
//
//	ephor impact policies/ --requests requests.jsonl --current in-force/
//
// It reads the inputs and prints; package internal/impact evaluates and counts.
//
// Floor 8: imports internal/impact, cli/load, cli/remote and cli/terminal.
package impact
