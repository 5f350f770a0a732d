package compilecost

import (
	"fmt"
	"time"

	"ephor.invalid/ephor/internal/kubeversion"
)

// The bounds. An expression is a CEL expression, a JMESPath query or a single regular expression.
const (
	MaxExpressionTime  = time.Second
	MaxExpressionBytes = 16 << 20 // of memory while it is compiled

	MaxPolicyTime  = 10 * time.Second
	MaxPolicyBytes = 32 << 20 // of memory that the compiled policy keeps

	// MaxNamespaceBytes is the memory that the compiled policies of one namespace may keep together.
	MaxNamespaceBytes = 2 * MaxPolicyBytes
)

// The bounds of the CEL expressions of one policy. Policies that people write have dozens of expressions.
const (
	maxCELs     = 1000
	maxCELBytes = 128 << 10
)

// Cost is what a text costs to compile.
type Cost struct {
	Time time.Duration
	Peak int64 // bytes of memory while it is compiled
	Held int64 // bytes that the result keeps
}

// Add adds another cost. Both are compiled before the memory of either is free.
func (c *Cost) Add(other Cost) {
	c.Time += other.Time
	c.Peak += other.Peak
	c.Held += other.Held
}

// Steps returns the time in steps of package budget.
func (c Cost) Steps() int64 { return int64(c.Time / (10 * time.Nanosecond)) }

// Check returns an *Error if the cost exceeds the bounds of one expression.
func (c Cost) Check() error {
	switch {
	case c.Peak > MaxExpressionBytes:
		return &Error{fmt.Sprintf("the expression takes about %d MiB of memory to compile, and %d are allowed: shorten it, or make the counts in {…} of its regular expressions smaller",
			c.Peak>>20, MaxExpressionBytes>>20)}
	case c.Time > MaxExpressionTime:
		return &Error{fmt.Sprintf("the expression takes about %s to compile, and %s is allowed: shorten it", c.Time.Round(100*time.Millisecond), MaxExpressionTime)}
	}
	return nil
}

// Allowance bounds what the texts of one policy cost together, including those of its generated rules. The zero Allowance is unused. It must
// be used by only one goroutine.
type Allowance struct {
	// Namespace is the namespace of a namespaced policy; empty for no bound of a namespace.
	Namespace string
	// Server is the version of the API server for which the policy is compiled.
	Server kubeversion.Minor
	// Left is the memory that the other policies of the namespace leave.
	Left int64

	time       time.Duration
	held       int64
	cels, text int
	exceeded   bool
	crowded    bool
}

// Error means that an expression, or a policy, costs too much to compile.
type Error struct{ what string }

func (e *Error) Error() string { return e.what }

// Charge charges the cost of an expression before it is compiled. The error is an *Error: the expression must not be compiled.
func (a *Allowance) Charge(c Cost) error {
	if err := c.Check(); err != nil || a == nil {
		return err
	}
	switch {
	case a.Namespace != "" && a.held+c.Held > a.Left:
		a.exceeded, a.crowded = true, true
		return &Error{NamespaceText(a.Namespace)}
	case a.held+c.Held > MaxPolicyBytes:
		a.exceeded = true
		return &Error{fmt.Sprintf("the regular expressions and CEL expressions of the policy take more than %d KiB of memory together, including those of generated rules", MaxPolicyBytes>>10)}
	case a.time+c.Time > MaxPolicyTime:
		a.exceeded = true
		return &Error{fmt.Sprintf("the expressions of the policy take more than %s to compile together, including those of generated rules", MaxPolicyTime)}
	}
	a.time += c.Time
	a.held += c.Held
	return nil
}

// CEL charges a CEL expression before it is parsed: by its length, and by the tokens that it may have.
func (a *Allowance) CEL(expression string) error {
	if a != nil {
		a.cels++
		a.text += len(expression)
		switch {
		case a.cels > maxCELs:
			a.exceeded = true
			return &Error{fmt.Sprintf("the policy has more than %d CEL expressions, including those of generated rules", maxCELs)}
		case a.text > maxCELBytes:
			a.exceeded = true
			return &Error{fmt.Sprintf("the CEL expressions of the policy have more than %d bytes in total, including those of generated rules", maxCELBytes)}
		}
	}
	return a.Charge(celCost(expression))
}

// Version returns the version of the API server for which the texts are compiled; the newest for a nil Allowance.
func (a *Allowance) Version() kubeversion.Minor {
	if a == nil {
		return 0
	}
	return a.Server
}

// Held returns the memory that the expressions keep which were charged so far.
func (a *Allowance) Held() int64 {
	if a == nil {
		return 0
	}
	return a.held
}

// Exceeded reports whether an expression exceeded the bounds of the policy.
func (a *Allowance) Exceeded() bool { return a != nil && a.exceeded }

// Crowded reports whether the policy compiles only when other policies of its namespace are deleted or become smaller.
func (a *Allowance) Crowded() bool { return a != nil && a.crowded }

// NamespaceText returns the mistake of a policy that exceeds the bound of its namespace.
func NamespaceText(namespace string) string {
	return fmt.Sprintf("the regular expressions and CEL expressions of the policies in namespace %s take more than %d MiB of memory together: delete policies, or make the counts in {…} of their regular expressions smaller",
		namespace, MaxNamespaceBytes>>20)
}
