package devcluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"ephor.invalid/ephor/charts"
)

// Ephor is an installation of Ephor on a development control plane: the chart's objects, and processes that run in place of its
// Deployments, since there is no kubelet.
type Ephor struct {
	cluster     *Cluster
	binary      string
	controllers map[string]*controller // by component
}

// controller is one Deployment of the chart, run as processes.
type controller struct {
	workload
	kubeconfig string
	forwarder  *Forwarder // listens on the address of its Service; nil without one
	direct     bool       // the only replica listens on the forwarder's address
	replicas   []*Replica
	beside     []Backend // processes of another program behind the same Service
	started    int
}

// Replica is one process of a controller: a Pod of the Deployment.
type Replica struct {
	*Process
	Addr        string // host:port of its HTTPS server, or of its probes if it has none
	MetricsAddr string // host:port of its metrics
	// DashboardAddr is the host:port of its dashboard, if the values enable it.
	DashboardAddr string
	ready         string // path of the readiness probe
	scheme        string // scheme of its URL: http or https
}

// InstallEphor installs the rendered chart with charts/values/dev.yaml.
func (c *Cluster) InstallEphor(ctx context.Context) (*Ephor, error) { return c.Install(ctx, "dev") }

// Install applies the rendered chart with charts/values/⟨values⟩.yaml, except the Deployments, which the API server only validates, and
// starts forwarders on the ClusterIPs of the controllers' Services. It starts no controller. bin/ephor must be built before.
func (c *Cluster) Install(ctx context.Context, values string) (*Ephor, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	e := &Ephor{cluster: c, binary: filepath.Join(root, "bin", "ephor"), controllers: map[string]*controller{}}
	if _, err := os.Stat(e.binary); err != nil {
		return nil, fmt.Errorf("%w: run `make build` first", err)
	}
	text, err := charts.YAML(values)
	if err != nil {
		return nil, err
	}
	r, err := readRender(text)
	if err != nil {
		return nil, err
	}
	if err := c.define(ctx, r.definitions); err != nil {
		return nil, err
	}
	if _, err := c.Kubectl(ctx, r.objects, "apply", "--server-side", "-f", "-"); err != nil {
		return nil, err
	}
	if _, err := c.Kubectl(ctx, r.deployments, "apply", "--server-side", "--dry-run=server", "-f", "-"); err != nil {
		return nil, err
	}
	return e, e.prepare(ctx, r.workloads)
}

// define applies definitions and waits until they are established. A shared control plane has those of the chart already.
func (c *Cluster) define(ctx context.Context, definitions []byte) error {
	if has, err := os.ReadFile(filepath.Join(c.Plane, definitionsFile)); c.Plane != "" && err == nil && bytes.Equal(has, definitions) {
		return nil
	}
	if _, err := c.Kubectl(ctx, definitions, "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	_, err := c.Kubectl(ctx, nil, "wait", "--for=condition=Established", "crd", "--all")
	return err
}

// Adopt uses the Deployments and Services that another program, such as Helm, installed in a namespace. It starts no controller; Start runs
// the program binary in place of their containers.
func (c *Cluster) Adopt(ctx context.Context, namespace, binary string) (*Ephor, error) {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	deployments, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	services, err := client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	r := &render{}
	for i := range deployments.Items {
		if err := r.add(&deployments.Items[i]); err != nil {
			return nil, err
		}
	}
	r.join(services.Items)
	e := &Ephor{cluster: c, binary: binary, controllers: map[string]*controller{}}
	return e, e.prepare(ctx, r.workloads)
}

// Refresh reads the Deployments of the namespace again, after a tool has changed them. Replicas that start later use the new arguments and
// environment.
func (e *Ephor) Refresh(ctx context.Context, namespace string) error {
	client, err := kubernetes.NewForConfig(e.cluster.Config)
	if err != nil {
		return err
	}
	deployments, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	r := &render{}
	for i := range deployments.Items {
		if err := r.add(&deployments.Items[i]); err != nil {
			return err
		}
	}
	for _, w := range r.workloads {
		k := e.controllers[w.component]
		if k == nil {
			return fmt.Errorf("the Deployment %s of component %q is new", w.name, w.component)
		}
		k.pod, k.labels = w.pod, w.labels
	}
	return nil
}

// prepare prepares what the processes of Deployments need: a token, and a forwarder on the ClusterIP of their Service.
func (e *Ephor) prepare(ctx context.Context, workloads []workload) (err error) {
	for _, w := range workloads {
		k := &controller{workload: w}
		// The controllers log in with this token and never as administrator, so that missing permissions show.
		if k.kubeconfig, err = e.cluster.ServiceAccountKubeconfig(ctx, w.namespace, w.pod.ServiceAccountName); err != nil {
			return err
		}
		if w.service != "" {
			if k.forwarder, err = e.cluster.Forward(ctx, w.namespace, w.service); err != nil {
				return err
			}
		}
		e.controllers[w.component] = k
	}
	return nil
}

// The components that Start accepts: values of the label app.kubernetes.io/component of a Deployment.
const (
	Admission  = "admission-controller"
	Background = "background-controller"
	Cleanup    = "cleanup-controller"
	Reports    = "reports-controller"
)

// Components returns the components that Start accepts, sorted.
func (e *Ephor) Components() []string { return slices.Sorted(maps.Keys(e.controllers)) }

// StartAdmission starts one more admission controller behind its Service and returns when it is ready.
func (e *Ephor) StartAdmission(ctx context.Context, args ...string) (*Replica, error) {
	return e.Start(ctx, Admission, args...)
}

// WithoutForwarder lets the next replica of a controller, which must be the only one, listen on the ClusterIP of its Service itself. In a
// cluster the kernel forwards at almost no cost, but a forwarder would distort measurements.
func (e *Ephor) WithoutForwarder(component string) error {
	k := e.controllers[component]
	if k == nil || k.forwarder == nil || len(k.replicas) > 0 {
		return fmt.Errorf("%s has no Service, or runs already", component)
	}
	k.forwarder.Close()
	k.direct = true
	return nil
}

// Start starts one more replica of a controller, with the arguments and the environment of its Deployment followed by args, and returns
// when its readiness probe succeeds. Only what depends on the machine differs: its own ports on loopback, and a kubeconfig with a token of
// the Deployment's service account.
func (e *Ephor) Start(ctx context.Context, component string, args ...string) (*Replica, error) {
	k := e.controllers[component]
	if k == nil {
		return nil, fmt.Errorf("the chart renders no Deployment of component %q", component)
	}
	ports, err := e.cluster.freePorts(3)
	if err != nil {
		return nil, err
	}
	k.started++
	name := k.name + "-" + strconv.Itoa(k.started)
	container := k.pod.Containers[0]
	server := "webhookServer"
	switch component {
	case Cleanup:
		server = "cleanupServer"
	case Background, Reports:
		server = "health"
	}
	host, port := "127.0.0.1", strconv.Itoa(ports[0])
	if k.direct {
		if host, port, err = net.SplitHostPort(k.forwarder.listener.Addr().String()); err != nil {
			return nil, err
		}
	}
	all := append(append([]string{}, container.Args...), "--kubeconfig="+k.kubeconfig,
		"--"+server+"Host="+host, "--"+server+"Port="+port, "--metricsHost=127.0.0.1", "--metricsPort="+strconv.Itoa(ports[1]))
	dashboard := slices.Contains(container.Args, "--dashboard")
	if dashboard {
		all = append(all, "--dashboardAddress=127.0.0.1", "--dashboardPort="+strconv.Itoa(ports[2]))
	}
	env, err := k.environment(name)
	if err != nil {
		return nil, err
	}
	p, err := e.cluster.Run(name, env, e.binary, append(all, args...)...)
	if err != nil {
		return nil, err
	}
	r := &Replica{Process: p, Addr: net.JoinHostPort(host, port), MetricsAddr: "127.0.0.1:" + strconv.Itoa(ports[1])}
	if dashboard {
		r.DashboardAddr = "127.0.0.1:" + strconv.Itoa(ports[2])
	}
	r.ready, r.scheme = readiness(container)
	k.replicas = append(k.replicas, r)
	k.forward()
	return r, e.cluster.Wait(ctx, name+" to be ready", func() error {
		select {
		case <-p.Done():
			return permanent{fmt.Errorf("%s ended:\n%s", name, p.Tail(20))}
		default:
		}
		if k.forwarder == nil {
			return r.Ready()
		}
		if !k.forwarder.probe(r.backend()) {
			return errors.New("it is not ready; its log ends with:\n" + p.Tail(5))
		}
		k.forwarder.probeAll()
		return nil
	})
}

// Beside puts processes of another program behind the controller's Service, together with our replicas. They replace those of an earlier
// call.
func (e *Ephor) Beside(component string, backends ...Backend) error {
	k := e.controllers[component]
	if k == nil || k.forwarder == nil {
		return fmt.Errorf("%s has no Service", component)
	}
	k.beside = backends
	k.forward()
	k.forwarder.probeAll()
	return nil
}

// Ready calls the replica's readiness probe, as the kubelet does; the error says why it is not ready.
func (r *Replica) Ready() error {
	select {
	case <-r.Done():
		return fmt.Errorf("%s ended:\n%s", r.Name, r.Tail(20))
	default:
	}
	if r.ready == "" {
		return nil
	}
	client := &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	resp, err := client.Get(r.scheme + "://" + r.Addr + r.ready)
	if err != nil {
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", r.Name, resp.Status)
	}
	return nil
}

// environment returns the container's environment in a Pod with that name.
func (k *controller) environment(pod string) ([]string, error) {
	var env []string
	for _, v := range k.pod.Containers[0].Env {
		value := v.Value
		if v.ValueFrom != nil {
			if v.ValueFrom.FieldRef == nil {
				return nil, fmt.Errorf("the environment variable %s of %s comes from something other than a field", v.Name, k.name)
			}
			switch path := v.ValueFrom.FieldRef.FieldPath; path {
			case "metadata.namespace":
				value = k.namespace
			case "metadata.name":
				value = pod
			default:
				return nil, fmt.Errorf("the environment variable %s of %s comes from the field %s", v.Name, k.name, path)
			}
		}
		env = append(env, v.Name+"="+value)
	}
	return env, nil
}

// readiness returns the path of the container's readiness probe, and the scheme.
func readiness(c corev1.Container) (path, scheme string) {
	if c.ReadinessProbe == nil || c.ReadinessProbe.HTTPGet == nil {
		return "", ""
	}
	get := c.ReadinessProbe.HTTPGet
	return get.Path, strings.ToLower(cmp.Or(string(get.Scheme), "http"))
}

// forward puts the running replicas behind the Service.
func (k *controller) forward() {
	if k.forwarder == nil {
		return
	}
	backends := slices.Clone(k.beside)
	for _, r := range k.replicas {
		select {
		case <-r.Done():
		default:
			backends = append(backends, r.backend())
		}
	}
	k.forwarder.Set(backends...)
}

func (r *Replica) backend() Backend { return Backend{Addr: r.Addr, Ready: r.ready} }
