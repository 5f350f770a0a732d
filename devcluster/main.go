// Command devcluster is one binary that is etcd, kube-apiserver, kube-controller-manager or kubectl, chosen by its
// first argument (or by the name it is called with). It exists so that tests and `make demo` can run the real
// control plane from ordinary Go modules, without a download. It is a module of its own: the main go.mod never sees
// k8s.io/kubernetes. internal/devcluster of the main module builds and drives it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

const usage = "usage: devcluster etcd|kube-apiserver|kube-controller-manager|kubectl [flags], or devcluster kubectl-server"

func main() {
	name := filepath.Base(os.Args[0])
	if name == "devcluster" {
		if len(os.Args) < 2 {
			fmt.Fprintln(os.Stderr, usage)
			os.Exit(2)
		}
		name, os.Args = os.Args[1], os.Args[1:]
	}
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(run(controllermanager.NewControllerManagerCommand()))
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
	case "kubectl-server":
		if err := serveKubectl(); err != nil {
			fmt.Fprintln(os.Stderr, "devcluster kubectl-server:", err)
			os.Exit(1)
		}
	default:
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
}

func run(cmd *cobra.Command) int { return cli.Run(cmd) }
