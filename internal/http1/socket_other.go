//go:build !linux

package http1

import (
	"net"
	"syscall"
)

// quiet does nothing: it is implemented for Linux, where the controllers run.
func quiet(conn net.Conn, _ syscall.RawConn) net.Conn { return conn }
