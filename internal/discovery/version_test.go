package discovery

import (
	"errors"
	"testing"
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
