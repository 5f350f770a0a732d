// Package textgen makes random texts that match a regular expression.
//
//	text, err := textgen.Text("[0-9a-z]{8}", rand, step)
//
// It generates no secrets: how random the text is depends on the world.Rand that it is given.
//
// Floor 0 (leaf): imports world.
package textgen
