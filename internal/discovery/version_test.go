package discovery

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/version"
)

// versions answers with one version after the other, the last one again and again. An empty version is an error.
type versions struct {
	list []version.Info
	read int
}

func (v *versions) ServerVersion() (*version.Info, error) {
	v.read++
	info := v.list[min(v.read, len(v.list))-1]
	if info == (version.Info{}) {
		return nil, errors.New("unavailable")
	}
	return &info, nil
}

// The version is that with which the API server stays compatible, read at most once a minute. Without an answer it is the last known one.
func TestCompatible(t *testing.T) {
	v := &versions{list: []version.Info{
		{},
		{Major: "1", Minor: "31+"},
		{},
		{Major: "1", Minor: "36", EmulationMajor: "1", EmulationMinor: "34", MinCompatibilityMajor: "1", MinCompatibilityMinor: "33"},
		{Major: "x", Minor: "36"},
	}}
	now := time.Unix(1_000_000, 0)
	c := &Compatible{Client: v, Now: func() time.Time { return now }}
	for i, want := range []Version{Oldest, {1, 30}, {1, 30}, {1, 33}, {1, 33}} {
		for range 3 {
			if got := c.Version(); got != want {
				t.Errorf("answer %d: %v, want %v", i, got, want)
			}
		}
		if v.read != i+1 {
			t.Errorf("answer %d: the version was read %d times", i, v.read)
		}
		now = now.Add(2 * versionAge)
	}
}

// slowVersion answers after some time.
type slowVersion struct {
	after time.Duration
	minor string
}

func (s *slowVersion) ServerVersion() (*version.Info, error) {
	time.Sleep(s.after)
	return &version.Info{Major: "1", Minor: s.minor}, nil
}

// While the API server does not answer, all callers together wait a moment and get the last known version.
func TestCompatibleOfASlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &slowVersion{minor: "31"}
		c := &Compatible{Client: server, Now: time.Now}
		c.Version()
		server.after, server.minor = requestTimeout, "32"
		time.Sleep(2 * versionAge)
		began := time.Now()
		for range 10 {
			if got := c.Version(); got != (Version{1, 30}) {
				t.Errorf("%v, want the last known version", got)
			}
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("10 callers waited %s", took)
		}
		time.Sleep(requestTimeout)
		if got := c.Version(); got != (Version{1, 31}) {
			t.Errorf("%v after the answer", got)
		}
	})
}
