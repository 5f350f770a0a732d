package http1

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A connection that the client ends while its request is handled is noticed, also while the handler runs; every other end is not.
func TestWatch(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*net.TCPConn) error
	}{
		{"closed", func(c *net.TCPConn) error { return c.Close() }},
		{"half closed", func(c *net.TCPConn) error { return c.CloseWrite() }},
		{"reset", func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			lost, handling, release := make(chan string, 10), make(chan bool), make(chan bool)
			address, _, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				Watch(r, func() { lost <- r.URL.Path })
				handling <- true
				<-release
				_, _ = w.Write([]byte("ok"))
			}, nil)
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			reader := bufio.NewReader(conn)
			for _, path := range []string{"/a", "/b"} { // the first request, and one after it
				fmt.Fprint(conn, post(path, "x"))
				<-handling
				release <- true
				res, err := http.ReadResponse(reader, nil)
				if err != nil || res.StatusCode != http.StatusOK {
					t.Fatal(res, err)
				}
				_ = res.Body.Close()
			}
			fmt.Fprint(conn, post("/c", "x"))
			<-handling
			if err := c.end(conn.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			if got := <-lost; got != "/c" { // before the handler returns
				t.Errorf("lost %s", got)
			}
			release <- true

			idle, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(idle, post("/d", "x"))
			<-handling
			release <- true
			if res, err := http.ReadResponse(bufio.NewReader(idle), nil); err != nil || res.StatusCode != http.StatusOK {
				t.Fatal(res, err)
			}
			if err := c.end(idle.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			select {
			case path := <-lost:
				t.Errorf("lost %s, which was answered or is reported already", path)
			default:
			}
		})
	}
}

// A response that cannot be written is reported once, and a request that is not watched never.
func TestWatchUnwritten(t *testing.T) {
	for _, ends := range []bool{false, true} {
		w, n := &watch{ended: func() bool { return ends }}, 0
		w.begin(func() { n++ })
		w.handled()
		w.written(errors.New("broken pipe"))
		w.written(errors.New("broken pipe"))
		w.look()
		if n != 1 {
			t.Errorf("reported %d times", n)
		}
		w.begin(func() { n++ })
		ends = false
		w.handled()
		w.written(nil)
		if n != 1 {
			t.Error("an answered request is reported")
		}
	}
	(&watch{}).written(errors.New("broken pipe"))
}

// A client that left while its request was handled is noticed before the response, unless the request was brief.
func TestHandled(t *testing.T) {
	for took, want := range map[time.Duration]int64{brief / 2: 0, brief: 1, lookEvery - 1: 1, 10 * lookEvery: 1} {
		synctest.Test(t, func(t *testing.T) {
			var gone atomic.Bool
			var n atomic.Int64
			w := &watch{ended: func() bool { return gone.Load() }}
			w.begin(func() { n.Add(1) })
			time.Sleep(took)
			gone.Store(true)
			w.handled()
			w.written(nil)
			time.Sleep(10 * lookEvery)
			if n.Load() != want {
				t.Errorf("after %s: reported %d times, want %d", took, n.Load(), want)
			}
		})
	}
}
