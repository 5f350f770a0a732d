package soak

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ephor.invalid/ephor/e2e/suite"
)

// 1,000 clients hold connections with an unfinished header, as long and as slowly as they are allowed; each closed one is opened again.
// The API server's reviews continue meanwhile, and memory is as without those clients.
func TestSlowConnections(t *testing.T) {
	const slow = 1000
	p := install(t)
	replica := p.start(1)[0]
	p.podSecurity()
	pods := p.podClient(4)
	suite.Until(p.T, "the policies are enforced", pods.enforced)

	// phase creates Pods for a while and returns the results, with the maximum memory of the process.
	phase := func() (*podCounts, float64) {
		finish, memory := pods.storm(), watchMemory(t, replica.PID())
		time.Sleep(lasting(40 * time.Second))
		return finish(), memory()
	}
	phase() // warms up
	_, without := phase()

	var stop atomic.Bool
	var opened, ended atomic.Int64
	var wg sync.WaitGroup
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // it believes nothing
	header := "POST /validate/fail HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-Long: "+strings.Repeat("x", 1000)+"\r\n", 1000)
	for i := range slow {
		wg.Go(func() {
			for !stop.Load() {
				conn, err := net.DialTimeout("tcp", replica.Addr, 5*time.Second)
				if err != nil {
					time.Sleep(100 * time.Millisecond)
					continue
				}
				opened.Add(1)
				_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
				over := tls.Client(conn, config)
				switch i % 3 {
				case 0: // no handshake
				case 1: // a header of a few bytes
					_, _ = io.WriteString(over, header[:60])
				case 2: // the longest header that is accepted
					_, _ = io.WriteString(over, header)
				}
				for b := make([]byte, 1); !stop.Load(); {
					if _, err := conn.Read(b); err != nil {
						break
					}
				}
				conn.Close()
				ended.Add(1)
				time.Sleep(time.Second) // the machine is shared with the measured processes
			}
		})
	}
	counts, with := phase()
	stop.Store(true)
	tell(t, "slow connections opened", opened.Load())
	tell(t, "of those ended before the end", ended.Load())
	if err := suite.Alive(replica); err != nil {
		t.Error(err)
	}
	refused := len(counts.refused) + counts.unavailableBad + len(counts.otherRefusalBad)
	figure(t, fmt.Sprintf("of %d requests to the API server, failed", counts.clean+counts.bad), refused, "0", refused == 0 && counts.clean > 0)
	figure(t, "violating Pods admitted", len(counts.admitted), "0", len(counts.admitted) == 0)
	tell(t, "memory without slow connections", fmt.Sprintf("%.0f MB", without))
	figure(t, "memory with them, beside that without", fmt.Sprintf("%+.0f MB", with-without), "at most +40 MB", with-without <= 40)
	wg.Wait()
	figure(t, "the process goes on and decides", map[bool]string{true: "yes", false: "no"}[pods.enforced() == nil], "yes", pods.enforced() == nil)
}
