package store

import (
	"context"
	"math"
)

// erasure erases the decisions of a user in steps, between which others are stored.
type erasure struct {
	// find lists the data of the decisions in a table, and keep removes what other decisions have, too. delete has the statements that delete the
	// decisions, the last one those themselves.
	find, keep string
	delete     []string
	// window runs one of these statements for a limited number of decisions from an id on. It returns the number of rows that changed, and the id from
	// which on there are more decisions.
	window func(ctx context.Context, text string, from int64) (n, next int64, more bool, err error)
	// part erases a part of the listed data, and reports whether some is left.
	part func(context.Context) (left bool, err error)
}

// run erases the data before the decisions, so that another erasure finds what is left after a failure. It returns the number of decisions.
func (e *erasure) run(ctx context.Context) (n int, err error) {
	found, err := e.windows(ctx, e.find)
	if err == nil && found > 0 {
		_, err = e.windows(ctx, e.keep)
		for left := true; left && err == nil; {
			left, err = e.part(ctx)
		}
	}
	for _, text := range e.delete {
		if err != nil {
			return 0, err
		}
		n, err = e.windows(ctx, text)
	}
	return n, err
}

// windows runs a statement for all decisions, and returns the number of rows that it changed.
func (e *erasure) windows(ctx context.Context, text string) (n int, err error) {
	from := int64(math.MinInt64)
	for more := true; more && err == nil; {
		var changed int64
		changed, from, more, err = e.window(ctx, text, from)
		n += int(changed)
	}
	return n, err
}
