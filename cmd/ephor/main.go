// Command ephor judges, mends and reports Kubernetes resources by policies, on the command line and in a cluster.
package main

import (
	"os"

	"github.com/ephor-dev/ephor/internal/app"
	"github.com/ephor-dev/ephor/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args, cli.NewRoot(app.NewControllerCommand(cli.Version())))) }
