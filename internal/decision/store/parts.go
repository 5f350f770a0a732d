package store

import (
	"errors"
	"fmt"

	"ephor.invalid/ephor/internal/decision"
)

// tooLong is the error for records that take more bytes than one message, or one part of a file, may have.
type tooLong int

// Error implements error.
func (n tooLong) Error() string {
	return fmt.Sprintf("a record of %d bytes is too long for the store", int(n))
}

// inParts sends records in one message, or in as many as their length requires, in their order. send returns tooLong for records that are too many for
// one; a record that is too long alone does not affect the others.
func inParts(records []decision.Record, send func([]decision.Record) error) error {
	if len(records) == 0 {
		return nil
	}
	err := send(records)
	var long tooLong
	if len(records) == 1 || !errors.As(err, &long) {
		return err
	}
	half := len(records) / 2
	var lost decision.Lost
	for _, part := range [][]decision.Record{records[:half], records[half:]} {
		if err := inParts(part, send); err != nil {
			lost.Add(len(part), err)
		}
	}
	return lost.Err()
}
