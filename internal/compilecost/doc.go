// Package compilecost measures what a text costs to compile before it is compiled, and bounds what the texts of one policy cost together.
//
//	a := &compilecost.Allowance{}                  // of one policy
//	size, err := compilecost.Regex(`^[a-z]{1,63}$`)
//	err = a.Charge(size.Cost)                      // an *Error if the policy exceeds its bounds
//
// A regular expression of 3 kB can become half a gigabyte, so its length says nothing. The package parses it, which takes little memory, and
// counts the instructions that it becomes. Texts that are expensive to parse are recognized without parsing them. The costs are estimates:
// upper bounds, derived from the constants in regex.go, and not measurements of time or memory.
//
// A nil *Allowance has only the bounds of single expressions.
//
// Floor 0 (leaf): imports nothing of ours.
package compilecost
