package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ephor.invalid/ephor/config/crds"
	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/sigverify/fixture"
)

// The values of the chart (charts/values) that the suite expects, and those for users who may not listen on the ports of real clusters,
// which some tests compare.
const (
	configuration = "conformance"
	unprivileged  = "standard"
)

// configurationHere returns the configuration that this user can install.
func configurationHere(progress io.Writer) string {
	l, err := net.Listen("tcp", "127.0.0.1:443")
	if errors.Is(err, os.ErrPermission) {
		fmt.Fprintln(progress, "This user may not listen on port 443: tests that compare the port of webhooks fail.")
		return unprivileged
	}
	if err == nil {
		l.Close()
	}
	return configuration
}

// everyCluster are objects that every real cluster has. Reports in some tests name them.
const everyCluster = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: coredns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  replicas: 0
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec: {containers: [{name: coredns, image: "registry.k8s.io/coredns/coredns:v1.12.0"}]}
`

// shard is a separate control plane with Ephor.
type shard struct {
	dir     string
	suite   string // a copy, since tests write files into their folders
	path    string // with the programs that tests call at the beginning
	cluster *devcluster.Cluster
	ephor   *devcluster.Ephor
	// controllers are the processes that must be ready while a test runs, by component: one for each Deployment.
	controllers map[string]*devcluster.Replica
	clientCA    string // file with the authority of the API server's client certificate
	cleaner     *cleaner
	webhooks    map[string]string
	images      bool   // the suite's images are served, and their signers are trusted
	flags       string // flags for the controllers, from more.tsv
}

// everyFlag are the definitions and rights that the chart installs for features that the flags enable.
const everyFlag = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: conformance, labels: {rbac.kyverno.io/aggregate-to-reports-controller: "true"}}
rules:
- {apiGroups: [openreports.io], resources: [reports, clusterreports], verbs: [create, delete, deletecollection, get, list, patch, update, watch]}
- {apiGroups: [admissionregistration.k8s.io], resources: [mutatingadmissionpolicies, mutatingadmissionpolicybindings], verbs: [get, list, watch]}
`

// evict is the plugin of kubectl that evicts a Pod: kubectl evict NAME -n NAMESPACE.
const evict = `#!/bin/sh
echo "{\"apiVersion\": \"policy/v1\", \"kind\": \"Eviction\", \"metadata\": {\"namespace\": \"$3\", \"name\": \"$1\"}}" |
  exec kubectl create --raw "/api/v1/namespaces/$3/pods/$1/eviction" -f -
`

// startShard starts the control plane and every controller, and returns when all are ready.
func startShard(ctx context.Context, p programs, suite, dir string, progress io.Writer) (_ *shard, err error) {
	s := &shard{dir: dir, suite: filepath.Join(dir, "suite"), path: filepath.Join(dir, "bin"), images: p.images, flags: p.flags, controllers: map[string]*devcluster.Replica{}}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(s.path, 0o755), os.CopyFS(s.suite, os.DirFS(suite))); err != nil {
		return nil, err
	}
	if p.images {
		if err := fixture.Load().SubstituteFiles(s.suite); err != nil {
			return nil, err
		}
	}
	for name, target := range map[string]string{"kyverno": p.ephor, "kubectl": p.devcluster} {
		if err := os.Symlink(target, filepath.Join(s.path, name)); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(s.path, "kubectl-evict"), []byte(evict), 0o755); err != nil {
		return nil, err
	}
	// Tests of the suite assert the paths of webhooks, which are plain if the API server presents a certificate.
	flags, ca, err := devcluster.WebhookClient(filepath.Join(dir, "client"), "")
	if err != nil {
		return nil, err
	}
	s.clientCA = ca
	// Some tests write or read policies of the API server in versions that it only serves with this flag.
	flags = append(flags, "--runtime-config=admissionregistration.k8s.io/v1beta1=true,admissionregistration.k8s.io/v1alpha1=true")
	version, err := devcluster.Version()
	if err != nil {
		return nil, err
	}
	server, err := kubeversion.Parse(version)
	if err != nil {
		return nil, err
	}
	if server >= 32 && server < 36 { // afterwards it is always on
		flags = append(flags, "--feature-gates=MutatingAdmissionPolicy=true")
	}
	if s.cluster, err = devcluster.Start(ctx, devcluster.Options{Dir: filepath.Join(dir, "cluster"), Progress: progress, APIServerFlags: flags}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if s.ephor, err = s.cluster.Install(ctx, configurationHere(progress)); err != nil {
		return nil, err
	}
	objects := everyCluster
	if p.images {
		objects += "---" + logConfig
	}
	if p.flags != "" {
		objects += "---" + everyFlag
		for _, name := range crds.Names() {
			if strings.HasPrefix(name, "openreports.io_") {
				objects += "---\n" + string(crds.File(name))
			}
		}
	}
	if _, err = s.cluster.Kubectl(ctx, []byte(objects), "apply", "--server-side", "-f", "-"); err != nil {
		return nil, err
	}
	if err = s.startControllers(ctx); err != nil {
		return nil, err
	}
	// Objects that the controllers write while they start belong to the initial state.
	if err = s.steady(ctx); err != nil {
		return nil, err
	}
	if s.cleaner, err = newCleaner(ctx, s.cluster.Config); err != nil {
		return nil, err
	}
	s.webhooks, err = s.cleaner.webhooks(ctx)
	return s, err
}

// startControllers starts the controllers that are not running, and returns an error unless all are ready.
func (s *shard) startControllers(ctx context.Context) (err error) {
	for _, component := range s.ephor.Components() {
		if c := s.controllers[component]; c != nil {
			select {
			case <-c.Done():
			default:
				continue
			}
		}
		var args []string
		if s.images && component != devcluster.Cleanup {
			args = imageFlags()
		}
		if component == devcluster.Admission {
			args = append(args, "--client-ca-file="+s.clientCA, "--client-names="+devcluster.ClientName)
		}
		args = append(args, flagsOf(s.flags, component)...)
		if s.controllers[component], err = s.ephor.Start(ctx, component, args...); err != nil {
			return err
		}
	}
	return s.ready()
}

// steady waits until the webhook configurations exist and stay the same for a second.
func (s *shard) steady(ctx context.Context) error {
	c, err := newCleaner(ctx, s.cluster.Config)
	if err != nil {
		return err
	}
	last, since := "", time.Now()
	return s.cluster.Wait(ctx, "the webhook configurations", func() error {
		hooks, err := c.webhooks(ctx)
		if err != nil {
			return err
		}
		if now := fmt.Sprint(hooks); now != last {
			last, since = now, time.Now()
		}
		if len(hooks) == 0 || time.Since(since) < time.Second {
			return errors.New("they are still being written")
		}
		return nil
	})
}

// ready reports whether every controller runs and answers its readiness probe. A machine under load may need several attempts.
func (s *shard) ready() error {
	for _, c := range s.controllers {
		err := c.Ready()
		for range 4 {
			if err == nil {
				break
			}
			time.Sleep(time.Second)
			err = c.Ready()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *shard) stop() {
	if s.cluster != nil {
		s.cluster.Stop()
	}
}
