// Package textgen generates random texts that match a regular expression.
//
//	text, err := textgen.Text("[0-9a-z]{8}", rand, step)
//
// It is not for secrets: the randomness of the text depends on the given world.Rand.
//
// Floor 0 (leaf): imports compilecost and world.
package textgen
