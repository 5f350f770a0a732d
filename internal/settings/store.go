package settings

import "sync/atomic"

// Store holds the current Settings. The zero Store holds Defaults.
type Store struct{ current atomic.Pointer[Settings] }

// Load returns the current Settings, never nil.
func (s *Store) Load() *Settings {
	if c := s.current.Load(); c != nil {
		return c
	}
	s.current.CompareAndSwap(nil, Defaults())
	return s.current.Load()
}

// Set makes c current for all later calls of Load; nil restores the defaults.
func (s *Store) Set(c *Settings) {
	if c == nil {
		c = Defaults()
	}
	s.current.Store(c)
}
