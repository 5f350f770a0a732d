// Command ephor validates, mutates and reports Kubernetes resources by policies, on the command line and in a cluster.
package main

import (
	"os"
	"slices"

	"github.com/ephor-dev/ephor/internal/app"
	"github.com/ephor-dev/ephor/internal/cli"
)

func main() {
	root := cli.NewRoot(app.NewControllerCommand(cli.Version()))
	os.Exit(cli.Main(slices.Concat(os.Args[:1], app.DoubleDashes(root, os.Args[1:])), root))
}
