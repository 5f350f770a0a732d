package terminal

import (
	"context"
	"slices"
)

type argumentsKey struct{}

// WithArguments returns a context that knows the arguments of the program as the user wrote them.
func WithArguments(ctx context.Context, args []string) context.Context {
	return context.WithValue(ctx, argumentsKey{}, args)
}

// After returns the argument that the user wrote directly behind a flag; empty if there is none. For a flag without a value it is an argument of
// its own, which the user may have meant as the value.
func After(ctx context.Context, flag string) string {
	args, _ := ctx.Value(argumentsKey{}).([]string)
	if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}
