package versions

import (
	"os"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/kubeversion"
)

// One control plane serves the tests that need no version of their own.
var (
	cluster suite.Cluster

	kubectl, eventually = cluster.Try, suite.Eventually
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, suite.Options{Values: "standard"})) }

// whole reports whether all cases run, as in `make matrix`. Otherwise a part of them does.
func whole() bool { return os.Getenv("EPHOR_MATRIX") != "" }

// server returns the version of the control plane.
func server(t *testing.T) kubeversion.Minor {
	t.Helper()
	version, err := devcluster.Version()
	if err != nil {
		t.Fatal(err)
	}
	v, err := kubeversion.Parse(version)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
