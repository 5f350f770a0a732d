package bounded

import (
	"errors"
	"fmt"
	"io"
)

// TooLargeError is the error for a text with more bytes than the limit.
type TooLargeError struct{ Limit int64 }

func (e *TooLargeError) Error() string { return fmt.Sprintf("more than %d bytes", e.Limit) }

// Exceeded reports whether an error is that of a text with more bytes than the limit.
func Exceeded(err error) bool {
	var e *TooLargeError
	return errors.As(err, &e)
}

// Read reads all of a text, which has at most limit bytes. With more, it returns a *TooLargeError.
func Read(r io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(text)) > limit {
		return nil, &TooLargeError{limit}
	}
	return text, err
}
