//go:build !linux

package http1

import "net"

// endedOf returns nil: only Linux, where the controllers run, says whether a client has closed its sending side.
func endedOf(net.Conn) func() bool { return nil }
