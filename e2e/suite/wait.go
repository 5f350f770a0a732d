package suite

import (
	"testing"
	"time"
)

// patience bounds every wait. It is for busy machines: what has to be quicker is measured by what Until returns.
const patience = 3 * time.Minute

// Until waits until f returns nil, and returns how long that took. The message of a test that waited in vain names what
// was waited for, and the last error.
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

// Eventually is Until where the error of f says enough.
func Eventually(t testing.TB, f func() error) time.Duration {
	t.Helper()
	return Until(t, "", f)
}
