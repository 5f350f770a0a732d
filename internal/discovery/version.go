package discovery

import (
	"strconv"
	"strings"
	"sync"
	"time"

	clientdiscovery "k8s.io/client-go/discovery"
)

// Version is a minor version of Kubernetes.
type Version struct{ Major, Minor uint }

// Oldest is the version with which every supported API server is compatible.
var Oldest = Version{1, 29}

// Compatible follows the oldest version with which the API server stays compatible. The API server accepts no new CEL expressions with
// functions of later versions, so that it can be downgraded. Compatible is safe for concurrent use.
type Compatible struct {
	Client clientdiscovery.ServerVersionInterface
	Now    func() time.Time

	mu     sync.Mutex
	last   Version
	asked  time.Time
	asking chan struct{} // closed when the question has ended; nil for none
}

// versionAge is the age at which the version is read again, and versionPatience how long callers wait for a later one.
const (
	versionAge      = time.Minute
	versionPatience = 2 * time.Second
)

// Version returns the version, as it was at most a minute ago. If it cannot be read in time, the last known version is returned, or Oldest.
func (c *Compatible) Version() Version {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	if c.asking == nil && (c.asked.IsZero() || now.Sub(c.asked) > versionAge) {
		c.asked, c.asking = now, make(chan struct{})
		go c.ask(c.asking)
	}
	if answer, left := c.asking, versionPatience-now.Sub(c.asked); answer != nil {
		// The first version decides what webhooks are written, so callers wait for it as long as the client does.
		var late <-chan time.Time
		if c.last != (Version{}) {
			late = time.After(left)
		}
		c.mu.Unlock()
		select {
		case <-answer:
		case <-late:
		}
		c.mu.Lock()
	}
	if c.last == (Version{}) {
		return Oldest
	}
	return c.last
}

// ask reads the version.
func (c *Compatible) ask(done chan struct{}) {
	defer close(done)
	info, err := c.Client.ServerVersion()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking = nil
	if err != nil {
		return
	}
	if v, ok := parseVersion(info.MinCompatibilityMajor, info.MinCompatibilityMinor); ok {
		c.last = v
	} else if v, ok := parseVersion(info.Major, info.Minor); ok { // API servers before 1.33
		c.last = Version{v.Major, max(v.Minor, 1) - 1}
	}
}

// parseVersion parses the numbers of a version. Providers may append a plus sign to the second one.
func parseVersion(major, minor string) (Version, bool) {
	a, err := strconv.ParseUint(major, 10, 16)
	if err != nil {
		return Version{}, false
	}
	b, err := strconv.ParseUint(strings.TrimSuffix(minor, "+"), 10, 16)
	return Version{uint(a), uint(b)}, err == nil
}
