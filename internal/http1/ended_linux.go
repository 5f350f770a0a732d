package http1

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// endedOf returns the function that reports whether the client of a TCP connection has closed its sending side or reset the connection; nil if
// that cannot be known. It neither waits nor reads. One goroutine at a time may call it.
func endedOf(conn net.Conn) func() bool {
	socket, ok := innermost(conn).(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	var state [1]unix.PollFd
	look := func(fd uintptr) {
		state[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLRDHUP}
		_, _ = unix.Poll(state[:], 0)
	}
	return func() bool {
		err := raw.Control(look)
		// An error: this process has closed the connection, for example to make room for others.
		return err != nil || state[0].Revents&(unix.POLLRDHUP|unix.POLLERR|unix.POLLHUP) != 0
	}
}
