package http1

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// socket is a connection of package net with raw system calls.
type socket struct {
	net.Conn
	raw         syscall.RawConn
	read, write transfer
	look        look
}

// transfer is a read or a write in progress. At most one of each runs at a time, as in package net, so its state is stored here and
// costs no allocation.
type transfer struct {
	mu   sync.Mutex
	step func(fd uintptr) (done bool)
	b    []byte
	n    int
	err  error
}

func quiet(conn net.Conn, raw syscall.RawConn) net.Conn {
	s := &socket{Conn: conn, raw: raw}
	s.read.step, s.write.step, s.look.step = s.read.receive, s.write.send, s.look.poll
	return s
}

// Read implements net.Conn.
func (s *socket) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := s.read.run(b, s.raw.Read)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, s.wrap("read", err)
}

// Write implements net.Conn.
func (s *socket) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := s.write.run(b, s.raw.Write)
	return n, s.wrap("write", err)
}

// ended reports whether the peer has closed its sending side, or reset the connection. It neither waits nor reads. One goroutine at a time
// may call it.
func (s *socket) ended() bool {
	err := s.raw.Control(s.look.step)
	return err != nil || s.look.ended // an error: this process has closed it, for example to make room for others
}

// look is a look at the state of a socket. Like a transfer, it is stored here and costs no allocation.
type look struct {
	step  func(fd uintptr)
	fd    pollFD
	now   syscall.Timespec // zero: ppoll does not wait
	ended bool
}

func (l *look) poll(fd uintptr) {
	l.fd = pollFD{fd: int32(fd), events: pollPeerClosed}
	n, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&l.fd)), 1, uintptr(unsafe.Pointer(&l.now)), 0, 0, 0)
	l.ended = errno == 0 && n == 1 && l.fd.revents&(pollPeerClosed|pollErr|pollHangUp) != 0
}

// pollFD is struct pollfd of ppoll(2), and the constants are its events.
type pollFD struct {
	fd              int32
	events, revents int16
}

const (
	pollErr        = 0x8
	pollHangUp     = 0x10
	pollPeerClosed = 0x2000 // POLLRDHUP
)

// CloseWrite closes the writing side, if the connection supports that (TCP does).
func (s *socket) CloseWrite() error {
	if half, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// run transfers b when the socket is ready; wait calls the step each time that the socket may be ready.
func (t *transfer) run(b []byte, wait func(func(uintptr) bool) error) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b, t.n, t.err = b, 0, nil
	err := wait(t.step)
	if err == nil {
		err = t.err
	}
	t.b = nil
	return t.n, err
}

// receive reads the available bytes.
func (t *transfer) receive(fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&t.b[0])), uintptr(len(t.b)))
		switch errno {
		case 0:
			t.n = int(n)
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			t.err = os.NewSyscallError("read", errno)
			return true
		}
	}
}

// send writes as many bytes as the socket accepts, until all are sent.
func (t *transfer) send(fd uintptr) bool {
	for t.n < len(t.b) {
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&t.b[t.n])), uintptr(len(t.b)-t.n))
		switch errno {
		case 0:
			t.n += int(n)
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			t.err = os.NewSyscallError("write", errno)
			return true
		}
	}
	return true
}

// wrap returns the error in the form of package net.
func (s *socket) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	if wrapped, ok := err.(*net.OpError); ok {
		err = wrapped.Err // drop the outer text, which mentions a raw read
	}
	return &net.OpError{Op: op, Net: s.LocalAddr().Network(), Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: err}
}
