package rollout

import (
	"os"
	"testing"

	"github.com/ephor-dev/ephor/e2e/suite"
)

// One control plane serves all tests of the package.
var cluster suite.Cluster

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, suite.Options{Audited: true})) }
