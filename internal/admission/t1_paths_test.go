package admission

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/secretpath"
)

// T1: a request at an unknown path gets 404 before its body has arrived, and its connection ends. This holds for the first request of a
// connection, and for one after an answered request.
func TestT1RefusedBeforeTheBody(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil, enforced("Fail"))
	guard := &secretpath.Guard{Overlap: time.Minute, Now: time.Now}
	guard.Stand([]string{"/validate/fail"})
	srv.Paths = guard
	address, config := onTLS(t, srv)
	for _, c := range []struct {
		name, header string
		before       bool // send a review that is answered first on the connection
	}{
		{"the first request", "", false},
		{"one that waits for 100 Continue", "Expect: 100-continue\r\n", false},
		{"a later request", "", true},
	} {
		conn, err := tls.Dial("tcp", address, config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		reader := bufio.NewReader(conn)
		if c.before {
			body := configMap("")
			fmt.Fprintf(conn, "POST /validate/fail HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			res, err := http.ReadResponse(reader, nil)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("%s: the review before gets %v, %v", c.name, res, err)
			}
			res.Body.Close()
			if res.ContentLength > 0 {
				if _, err := reader.Discard(reader.Buffered()); err != nil {
					t.Fatal(err)
				}
			}
		}
		fmt.Fprintf(conn, "POST /%s/validate/fail HTTP/1.1\r\nHost: x\r\n%sContent-Length: 100000\r\n\r\n", strings.Repeat("0", 64), c.header)
		res, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Errorf("%s: no answer before the body: %v", c.name, err)
			continue
		}
		res.Body.Close()
		if res.StatusCode != http.StatusNotFound || !res.Close {
			t.Errorf("%s: %s, the connection ends: %v", c.name, res.Status, res.Close)
		}
	}
}
