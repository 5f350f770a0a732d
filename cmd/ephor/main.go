// Command ephor validates, mutates and reports Kubernetes resources by policies, on the command line and in a cluster.
package main

import (
	"os"
	"slices"

	"ephor.invalid/ephor/internal/app"
	"ephor.invalid/ephor/internal/cli"
	"ephor.invalid/ephor/internal/flagset"
	_ "ephor.invalid/ephor/internal/lifecycle/firstgc" // no garbage collection while packages are initialized
)

func main() {
	controller := app.NewControllerCommand(cli.Version())
	root := cli.NewRoot(controller)
	os.Exit(cli.Main(slices.Concat(os.Args[:1], flagset.NormalizeDashes(root, controller, os.Args[1:])), root))
}
