package suite

import (
	"testing"
	"time"

	"ephor.invalid/ephor/internal/devcluster"
)

// Until waits until f returns nil, and returns the duration. If the time that devcluster.Patience allows is over, it fails the test with the
// text and the last error. Tests with shorter limits measure the result.
func Until(t testing.TB, what string, f func() error) time.Duration {
	t.Helper()
	begin := time.Now()
	var err error
	for patience := devcluster.Patience(); time.Since(begin) < patience; {
		look := time.Now()
		if err = f(); err == nil {
			return time.Since(begin)
		}
		time.Sleep(devcluster.Pause(time.Since(look)))
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
