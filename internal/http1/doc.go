// Package http1 answers the requests of a keep-alive connection (HTTP/1.1) one after the other, in one goroutine.
//
// net/http watches a connection while a handler runs, to cancel the request's context when the client goes away: for each
// request a goroutine, a read, two deadlines and the thread switches that come with them. A review takes a tenth of a
// millisecond and has a deadline of its own, and there that watch costs as much as reading and evaluating an object. So:
//
//	server := http1.Harden(&http.Server{Handler: &http1.Handler{Handler: reviews, Idle: time.Minute, Read: time.Second, Write: time.Second}})
//	err := server.ServeTLS(http1.Bound(http1.Listener(l), http1.Limits{}), "", "")
//
// net/http accepts connections, shakes hands and reads the first request. If that is a POST of HTTP/1.1 with a length,
// the connection is taken over, and this request and those that follow are answered here; anything else, the probes for
// one, stays with net/http. Requests are parsed by net/http in both cases.
//
// Beneath that, a Listener keeps the system calls of its connections from Go's scheduler, which would wake a thread with
// each of them.
//
// Beside that, Bound limits the connections that no client has proved to be its own, and Harden what a server reads before
// it knows who asks.
//
// What is deliberately missing: the context of a request does not end when its client goes away; a response is held back
// until the handler returns, so there is no streaming, no Flush and no Hijack; and HTTP/2.
//
// Floor 4: imports nothing of ours.
package http1
