package http1

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// conversations are byte sequences that a client sends at once.
var conversations = []struct{ name, sent string }{
	{"one", post("/a?b=c", "body")},
	{"pipelined", post("/1", "one") + post("/2", "") + post("/3", "three")},
	{"other methods", post("/1", "one") + "GET /2 HTTP/1.1\r\nHost: x\r\n\r\n" + "DELETE /3 HTTP/1.1\r\nHost: x\r\n\r\n"},
	{"chunks", post("/1", "one") + "POST /2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + post("/3", "three")},
	{"longer than a buffer", post("/1", strings.Repeat("long ", 20_000)) + post("/2", strings.Repeat("longer ", 20_000)) + post("/3", "short")},
	{"types", post("/typed", "{}") + post("/typed", "{}") + post("/1", "<html>")},
	{"no content", post("/1", "one") + post("/empty", "two") + post("/3", "three")},
	{"unread", post("/unread", "one") + post("/unread", strings.Repeat("x", 50_000)) + post("/3", "three")},
	{"the server's last", post("/1", "one") + post("/last", "two") + post("/3", "three")},
	{"the server's first", post("/last", "one") + post("/2", "two")},
	{"the client's last", post("/1", "one") + post("/2", "two", "Connection: close") + post("/3", "three")},
	{"an older version", post("/1", "one") + "POST /2 HTTP/1.0\r\nHost: x\r\nContent-Length: 3\r\n\r\ntwo" + post("/3", "three")},
	{"less than a line", post("/1", "one") + "POST /2"},
	{"no address", post("/1", "one") + "POST  HTTP/1.1\r\nHost: x\r\n\r\n"},
	{"less than a word", post("/1", "one") + "P"},
	{"no request", post("/1", "one") + "no request\r\n\r\n"},
	{"no length", post("/1", "one") + "POST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n"},
	{"two lengths", post("/1", "one") + "POST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"},
	{"no host", post("/1", "one") + "POST /2 HTTP/1.1\r\nContent-Length: 3\r\n\r\ntwo"},
	{"a long header", post("/1", "one") + post("/2", "two", "X: "+strings.Repeat("x", 2<<20))},
	{"an unknown expectation", post("/1", "one") + post("/2", "two", "Expect: more")},
	{"another expectation without a body", post("/1", "one") + post("/2", "", "Expect: more")},
	{"another version", post("/1", "one") + "GET /2 HTTP/2.0\r\nHost: x\r\n\r\n"},
	{"line ends between", post("/1", "one") + "\r\n\r\n" + post("/2", "two")},
	{"line ends after another method", post("/1", "one") + "GET /2 HTTP/1.1\r\nHost: x\r\n\r\n\r\n" + post("/3", "three")},
	{"a strange host", post("/1", "one") + "POST /2 HTTP/1.1\r\nHost: x y\r\nContent-Length: 3\r\n\r\ntwo"},
	{"two hosts", post("/1", "one") + "POST /2 HTTP/1.1\r\nHost: x\r\nHost: y\r\nContent-Length: 3\r\n\r\ntwo"},
	{"a strange header", post("/1", "one") + post("/2", "two", "X: a\x00b")},
	{"a strange header name", post("/1", "one") + post("/2", "two", "X (y): a")},
	{"a folded header", post("/1", "one") + post("/2", "two", "X: a\r\n b") + post("/3", "three")},
	{"a folded length", post("/1", "one") + "POST /2 HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n 3\r\n\r\ntwo" + post("/3", "three")},
	{"a length of both kinds", post("/1", "one") + "POST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + post("/3", "three")},
	{"a signed length", post("/1", "one") + "POST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\ntwo" + post("/3", "three")},
	{"the same length twice", post("/1", "one") + "POST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\ntwo" + post("/3", "three")},
	{"broken chunks", post("/1", "one") + "POST /2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n" + post("/3", "three")},
	{"a trailer", post("/1", "one") + "POST /2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: Y\r\n\r\n3\r\nabc\r\n0\r\nY: z\r\n\r\n" + post("/3", "three")},
	{"an upgrade", post("/1", "one") + post("/2", "two", "Connection: Upgrade", "Upgrade: websocket") + post("/3", "three")},
	{"an answer with line ends", post("/1", "one") + post("/split", "two") + post("/3", "three")},
	{"the first cut short", strings.TrimSuffix(post("/1", "one"), "e")},
	{"cut short", post("/1", "one") + "POST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\ntwo"},
}

// reference serves the same handler with net/http alone.
func reference(t testing.TB, l net.Listener) (address string) {
	t.Helper()
	server := &http.Server{Handler: http.HandlerFunc(echo), ErrorLog: log.New(io.Discard, "", 0), DisableGeneralOptionsHandler: true, MaxHeaderBytes: MaxHeader - slop}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	return l.Addr().String()
}

// The bytes on the wire equal those of net/http alone.
func TestAsNetHTTP(t *testing.T) {
	plain := reference(t, listen(t))
	address, _, _ := serve(t, echo, nil)
	for _, c := range conversations {
		t.Run(c.name, func(t *testing.T) {
			want, got := say(t, plain, c.sent), say(t, address, c.sent)
			if got != want {
				t.Errorf("got\n%s\nnet/http says\n%s", got, want)
			}
			if want == "" {
				t.Error("net/http answers nothing")
			}
		})
	}
}

// For any bytes from a client, there are as many answers as from net/http, each for the same request: no part of a body is interpreted
// as a request.
func FuzzAsNetHTTP(f *testing.F) {
	for _, c := range conversations {
		if len(c.sent) < 10_000 {
			f.Add(strings.TrimPrefix(c.sent, post("/1", "one")))
		}
	}
	sockets := f.TempDir()
	local := func(name string) net.Listener { // unlike ports, their number is not limited
		l, err := net.Listen("unix", filepath.Join(sockets, name))
		if err != nil {
			f.Fatal(err)
		}
		return l
	}
	plain := reference(f, local("plain"))
	address, _, _ := serveOn(f, local("kept"), echo, nil)
	noHost := regexp.MustCompile(`(?im)^host:\s*$`) // net/http distinguishes an empty Host header from a missing one
	f.Fuzz(func(t *testing.T, sent string) {
		if noHost.MatchString(sent) {
			t.Skip()
		}
		// The first request makes the handler take the connection over.
		want, got := say(t, plain, post("/1", "one")+sent), say(t, address, post("/1", "one")+sent)
		if sameAnswers(want) != sameAnswers(got) {
			t.Errorf("%q\ngot\n%s\nnet/http says\n%s", sent, got, want)
		}
	})
}

// sameAnswers removes from the result of say how a malformed connection ends: net/http distinguishes unknown encodings (501) from other
// mistakes, and its last answer may get lost.
func sameAnswers(said string) string {
	var out strings.Builder
	for line := range strings.Lines(said) {
		if refused := line[0] == '4' || line[0] == '5'; !refused || !strings.Contains(line, "close:true") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// say sends all of sent, and returns the answers until the connection ends or no more can come.
func say(t testing.TB, address, sent string) string {
	t.Helper()
	network := "tcp"
	if filepath.IsAbs(address) {
		network = "unix"
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		_, _ = io.WriteString(conn, sent)
		_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	}()
	var out strings.Builder
	for reader := bufio.NewReader(conn); ; {
		res, err := http.ReadResponse(reader, nil)
		if err != nil {
			return out.String()
		}
		body, err := io.ReadAll(res.Body)
		if err != nil && res.StatusCode < 400 { // net/http may close before the client has read a refusal
			t.Error(err)
		}
		if _, err := http.ParseTime(res.Header.Get("Date")); res.StatusCode == http.StatusOK && err != nil {
			t.Errorf("Date: %v", err)
		}
		kind := res.Header.Get("Content-Type")
		if res.StatusCode >= 400 {
			kind, body = "", nil // the text of net/http differs
		}
		fmt.Fprintf(&out, "%d %q close:%v length:%d %.80s%s\n", res.StatusCode, kind, res.Close, len(body), body, res.Header.Get("Retry-After"))
	}
}
