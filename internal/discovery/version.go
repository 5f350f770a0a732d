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

	mu   sync.Mutex
	last Version
	read time.Time
}

// versionAge is the age at which the version is read again.
const versionAge = time.Minute

// Version returns the version, as it was at most a minute ago. If it cannot be read, the last known version is returned, or Oldest.
func (c *Compatible) Version() Version {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.Now(); c.read.IsZero() || now.Sub(c.read) > versionAge {
		c.read = now
		if info, err := c.Client.ServerVersion(); err == nil {
			if v, ok := parseVersion(info.MinCompatibilityMajor, info.MinCompatibilityMinor); ok {
				c.last = v
			} else if v, ok := parseVersion(info.Major, info.Minor); ok { // API servers before 1.33
				c.last = Version{v.Major, max(v.Minor, 1) - 1}
			}
		}
	}
	if c.last == (Version{}) {
		return Oldest
	}
	return c.last
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
