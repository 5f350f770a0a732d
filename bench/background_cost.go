package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ephor.invalid/ephor/bench/load"
)

// measured holds the values before a load, for comparison with those after it.
type measured struct {
	g             *backgroundBench
	requests      map[string]int // from all clients, as the API server counts them
	cpu, server   time.Duration
	began         time.Time
	ours          map[string]int // requests of our service accounts in the audit log
	disagreements int
}

// countsApart is the time between the two counts of the same requests: the metric may hold slightly more than the log, but not less.
const countsApart = time.Second

// measure starts a measurement.
func (g *backgroundBench) measure(ctx context.Context) (*measured, error) {
	m := &measured{g: g}
	var err1, err2, err3 error
	if g.server, err1 = processOf(g.cluster.Dir, "kube-apiserver"); err1 != nil {
		return nil, err1
	}
	if m.requests, err1 = load.Requests(ctx, g.clientset); err1 != nil {
		return nil, err1
	}
	time.Sleep(countsApart)
	_, err1 = g.audit.Next()
	m.cpu, err2 = load.CPUTime(g.controller.PID())
	m.server, err3 = load.CPUTime(g.server)
	m.began = time.Now()
	return m, errors.Join(err1, err2, err3)
}

// rows ends the measurement and prints the cost of n objects.
//
// apiserver_request_total has no users, so the requests of our service accounts come from the audit log. For resources that only our
// accounts use, both counts must agree; for others, the log may not hold more than the metric.
func (m *measured) rows(ctx context.Context, name string, n int) error {
	took := time.Since(m.began)
	cpu, err1 := load.CPUTime(m.g.controller.PID())
	server, err2 := load.CPUTime(m.g.server)
	peak, err3 := peakMB(m.g.controller.PID())
	asked, err4 := m.g.audit.Next()
	time.Sleep(countsApart)
	after, err5 := load.Requests(ctx, m.g.clientset)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	m.count(asked, after)
	total := 0
	var parts []string
	for _, what := range slices.SortedFunc(maps.Keys(m.ours), func(a, b string) int { return m.ours[b] - m.ours[a] }) {
		total += m.ours[what]
		if m.ours[what] >= n/100 {
			parts = append(parts, fmt.Sprintf("%s %d", what, m.ours[what]))
		}
	}
	fmt.Printf("%s: %d requests of ours without watch, leases and events: %s\n", name, total, strings.Join(parts, ", "))
	fmt.Printf("%s: CPU in %.0f s: %.2f s of the controller, %.2f s of the API server\n",
		name, took.Seconds(), (cpu - m.cpu).Seconds(), (server - m.server).Seconds())
	m.g.row(name+": requests for each", "", float64(total)/float64(n), backgroundRequests)
	m.g.row(name+": counts that disagree", "", float64(m.disagreements), 0)
	m.g.row(name+": CPU", "s", (cpu - m.cpu).Seconds(), backgroundCPU)
	m.g.row(name+": most memory", "MB", peak, backgroundMB)
	return nil
}

// exclusive are resources that only our service accounts write, with the verbs that they use.
var exclusive = []string{"create updaterequests", "update updaterequests", "delete updaterequests", "create networkpolicies", "update networkpolicies"}

// count counts the requests, and compares both counts.
func (m *measured) count(asked []load.Asked, after map[string]int) {
	m.ours = map[string]int{}
	all := map[string]int{}
	for _, a := range asked {
		all[a.What()]++
		switch {
		case a.Verb == "watch", a.ObjectRef.Resource == "leases", a.ObjectRef.Resource == "events":
		default:
			m.ours[a.What()]++
		}
	}
	for what, n := range all {
		if more := n - (after[what] - m.requests[what]); more > 0 && !strings.Contains(what, "/") && !strings.HasPrefix(what, "watch") {
			m.disagreements += more
		}
	}
	for _, what := range exclusive {
		m.disagreements += max(0, after[what]-m.requests[what]-all[what])
	}
}
