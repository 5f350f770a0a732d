// Package bounded reads texts of a limited size.
//
//	body, err := bounded.Read(answer.Body, 1<<20)  // a *bounded.TooLargeError for more
//
// Nothing reads a text from outside without a limit: a body, a file, a compressed text.
//
// Floor 0 (leaf): imports nothing of ours.
package bounded
