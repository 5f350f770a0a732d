package devcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ephor-dev/ephor/config/crds"
	"github.com/ephor-dev/ephor/config/install"
)

// servicePort is the port of our Services: an ordinary user may not bind 443, where ClusterIPs are loopback addresses.
const servicePort = 8443

// Ephor is Ephor running on a development control plane: its Service, and the replicas behind it.
type Ephor struct {
	cluster    *Cluster
	binary     string
	kubeconfig string
	forwarder  *Forwarder
	replicas   []*Replica
	started    int
}

// Replica is one admission controller process.
type Replica struct {
	*Process
	Addr string // host:port of its HTTPS server
}

// InstallEphor applies our CRDs, RBAC, Services and settings and puts a forwarder on the admission Service's ClusterIP.
// No controller runs yet. bin/ephor has to be built.
func (c *Cluster) InstallEphor(ctx context.Context) (*Ephor, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	e := &Ephor{cluster: c, binary: filepath.Join(root, "bin", "ephor")}
	if _, err := os.Stat(e.binary); err != nil {
		return nil, fmt.Errorf("%w: run `make build` first", err)
	}
	manifests := install.YAML(servicePort)
	for _, name := range crds.Names() {
		manifests = append(append(manifests, "---\n"...), crds.File(name)...)
	}
	if _, err := c.Kubectl(ctx, manifests, "apply", "--server-side", "-f", "-"); err != nil {
		return nil, err
	}
	// kubectl gives up at once on a definition that has no status yet.
	if err := c.Wait(ctx, "the definitions to be established", func() error {
		_, err := c.Kubectl(ctx, nil, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
		return err
	}); err != nil {
		return nil, err
	}
	// The controllers log in with this token and never as administrator, so that missing permissions show.
	if e.kubeconfig, err = c.ServiceAccountKubeconfig(ctx, install.Namespace, install.AdmissionServiceAccount); err != nil {
		return nil, err
	}
	e.forwarder, err = c.Forward(ctx, install.Namespace, install.AdmissionService)
	return e, err
}

// StartAdmission starts one more admission controller behind the Service and returns when it is ready.
func (e *Ephor) StartAdmission(ctx context.Context, args ...string) (*Replica, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	e.started++
	name := "kyverno-admission-controller-" + strconv.Itoa(e.started)
	env := []string{
		"KYVERNO_NAMESPACE=" + install.Namespace, "KYVERNO_SVC=" + install.AdmissionService, "INIT_CONFIG=" + install.ConfigMap,
		"KYVERNO_SERVICEACCOUNT_NAME=" + install.AdmissionServiceAccount, "KYVERNO_DEPLOYMENT=kyverno-admission-controller",
		"KYVERNO_POD_NAME=" + name, "METRICS_CONFIG=kyverno-metrics",
	}
	p, err := e.cluster.Run(name, env, e.binary, append([]string{"controller", "admission",
		"--kubeconfig=" + e.kubeconfig, "--caSecretName=" + install.AdmissionCASecret, "--tlsSecretName=" + install.AdmissionTLSSecret,
		"--webhookServerHost=127.0.0.1", "--webhookServerPort=" + strconv.Itoa(port), "--servicePort=" + strconv.Itoa(servicePort),
	}, args...)...)
	if err != nil {
		return nil, err
	}
	r := &Replica{Process: p, Addr: "127.0.0.1:" + strconv.Itoa(port)}
	e.replicas = append(e.replicas, r)
	e.forward()
	return r, e.cluster.Wait(ctx, name+" to be ready", func() error {
		select {
		case <-p.Done():
			return permanent{fmt.Errorf("%s ended:\n%s", name, p.Tail(20))}
		default:
		}
		if !e.forwarder.probe(r.backend()) {
			return errors.New("it is not ready; its log ends with:\n" + p.Tail(5))
		}
		e.forwarder.probeAll()
		return nil
	})
}

// forward puts the replicas that still run behind the Service.
func (e *Ephor) forward() {
	var backends []Backend
	for _, r := range e.replicas {
		select {
		case <-r.Done():
		default:
			backends = append(backends, r.backend())
		}
	}
	e.forwarder.Set(backends...)
}

func (r *Replica) backend() Backend { return Backend{Addr: r.Addr, Ready: "/health/readiness"} }
