package suite

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/devcluster"
)

// Metrics returns the page /metrics of a controller at the address, a Replica's MetricsAddr.
func Metrics(t testing.TB, address string) string {
	t.Helper()
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("the metrics of %s: %s, %v", address, response.Status, err)
	}
	return string(page)
}

// Rounds returns the number of rounds that a controller of a replica has completed.
func Rounds(t testing.TB, r *devcluster.Replica, controller string) int {
	t.Helper()
	for line := range strings.Lines(Metrics(t, r.MetricsAddr)) {
		if strings.HasPrefix(line, `kyverno_controller_reconcile_total{controller_name="`+controller+`"`) {
			n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
	}
	return 0
}

// Round calls f, and waits until the controller has completed a round since. A test that nothing changes uses it in place of a pause.
func Round(t testing.TB, r *devcluster.Replica, controller string, f func()) {
	t.Helper()
	before := Rounds(t, r, controller)
	f()
	Until(t, r.Name+" completes a round of "+controller, func() error {
		if n := Rounds(t, r, controller); n <= before {
			return fmt.Errorf("%d rounds", n)
		}
		return nil
	})
}
