package suite

import (
	"testing"
	"time"
)

// patience bounds every wait. It is long enough for busy machines; tests with shorter limits measure the result of Until.
const patience = 3 * time.Minute

// Until waits until f returns nil, and returns the duration. If the time is over, it fails the test with the text and the last error.
func Until(t testing.TB, what string, f func() error) time.Duration {
	t.Helper()
	begin := time.Now()
	var err error
	for time.Since(begin) < patience {
		if err = f(); err == nil {
			return time.Since(begin)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if what != "" {
		what = " until " + what
	}
	t.Fatalf("waited in vain%s: %v", what, err)
	return 0
}

// Eventually is Until for an f whose error is a sufficient message.
func Eventually(t testing.TB, f func() error) time.Duration {
	t.Helper()
	return Until(t, "", f)
}
