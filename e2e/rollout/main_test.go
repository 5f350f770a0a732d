package rollout

import (
	"os"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
)

// One control plane serves all tests of the package.
var cluster suite.Cluster

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, suite.Options{Audited: true})) }
