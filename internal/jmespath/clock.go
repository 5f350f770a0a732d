package jmespath

import (
	"fmt"
	"time"

	"ephor.invalid/ephor/internal/world"
)

// now reads the clock of the world: rules never read the machine's clock.
func (env *Env) now(function string) (time.Time, error) {
	if env.World.Clock == nil {
		return time.Time{}, fmt.Errorf("JMESPath function '%s': the time is %w", function, world.ErrUnavailable)
	}
	return env.World.Clock.Now(), nil
}

// parseTimes parses arguments that hold times in RFC 3339 format.
func parseTimes(args ...any) ([]time.Time, error) {
	out := make([]time.Time, len(args))
	for i, arg := range args {
		var err error
		if out[i], err = time.Parse(time.RFC3339, arg.(string)); err != nil {
			return nil, err
		}
	}
	return out, nil
}
