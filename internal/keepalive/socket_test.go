package keepalive

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"
)

// A connection of a Listener is one like any other: deadlines, ends and concurrent use are those of package net.
func TestConnectionsOfListener(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, nil, err
		}
		quiet := Listener(l)
		if c2, err = net.Dial("tcp", l.Addr().String()); err != nil {
			return nil, nil, nil, err
		}
		if c1, err = quiet.Accept(); err != nil {
			return nil, nil, nil, err
		}
		return c1, c2, func() { c1.Close(); c2.Close(); quiet.Close() }, nil
	})
}
