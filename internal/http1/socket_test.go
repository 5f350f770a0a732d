package http1

import (
	"io"
	"net"
	"testing"

	"golang.org/x/net/nettest"
)

// A connection of a Listener behaves like any other: deadlines, ends and concurrent use are those of package net.
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

// A connection of a Listener can close one direction, as net/http does so that its last answer arrives.
func TestCloseWrite(t *testing.T) {
	l := Listener(listen(t))
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(client); len(rest) > 0 || err != nil {
		t.Errorf("the client reads %q, %v", rest, err)
	}
	if _, err := client.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	b := make([]byte, 8)
	if n, err := conn.Read(b); string(b[:n]) != "x" || err != nil {
		t.Errorf("the server reads %q, %v", b[:n], err)
	}
}
