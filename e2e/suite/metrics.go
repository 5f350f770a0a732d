package suite

import (
	"io"
	"net/http"
	"testing"
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
