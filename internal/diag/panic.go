package diag

import "fmt"

// Panicked returns the mistake of a policy at which a compiler panicked, from the recovered value. The policy errs for the requests that it
// matches; without it the policy would be missing.
func Panicked(v any) error {
	return fmt.Errorf("the compiler failed at this place, which is a defect of Ephor: %v", v)
}
