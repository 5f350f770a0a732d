package http1

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// Listener accepts connections on l that read and write without notifying Go's scheduler. The scheduler needs to know only about calls
// that may block, and these sockets do not block: package net does the waiting. If it were notified of every read, it would wake its
// monitor thread for each review of an idle process, which costs as much as decoding the object. Listener works on Linux; elsewhere
// connections are as l accepts them.
func Listener(l net.Listener) net.Listener {
	out := &listener{Listener: l, closed: make(chan struct{})}
	go out.beat()
	return out
}

type listener struct {
	net.Listener
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s, ok := conn.(syscall.Conn)
	if !ok {
		return conn, nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return conn, nil
	}
	return quiet(conn, raw), nil
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// beats bounds how long handlers that neither wait nor make a system call can delay others, if there are as many of them as processors.
const beats = 100 * time.Millisecond

// beat wakes the monitor thread periodically. That thread preempts long-running goroutines, but sleeps until the next timer, and possibly
// no other thread wakes it.
func (l *listener) beat() {
	tick := time.NewTicker(beats)
	defer tick.Stop()
	for {
		select {
		case <-l.closed:
			return
		case <-tick.C:
		}
	}
}
