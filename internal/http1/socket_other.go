//go:build !linux

package http1

import (
	"net"
	"syscall"
)

// quiet returns conn unchanged: only Linux, where the controllers run, has an implementation.
func quiet(conn net.Conn, _ syscall.RawConn) net.Conn { return conn }
