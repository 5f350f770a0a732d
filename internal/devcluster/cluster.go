package devcluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Options of Start.
type Options struct {
	// Dir holds data, logs and kubeconfigs; if empty, a temporary folder that Stop removes.
	Dir string
	// Version is the minor version of Kubernetes, such as 1.35; empty for the selected one (VersionEnv).
	Version string
	// Progress receives one line per step; nil for none.
	Progress io.Writer
	// APIServerFlags and ControllerManagerFlags are additional flags for kube-apiserver and kube-controller-manager.
	APIServerFlags, ControllerManagerFlags []string
	// Env is added to the environment of etcd, kube-apiserver and kube-controller-manager.
	Env []string
}

// RareCollections is the Env of tests: the processes collect garbage when their memory has grown fivefold, and not when it has doubled. A
// short test with its own control plane (e2e/clients) then uses 0.82 of the CPU time, 10.3 instead of 12.5 s. Benchmarks do without it.
var RareCollections = []string{"GOGC=400", "GOMEMLIMIT=1536MiB"}

// Cluster is a running control plane.
type Cluster struct {
	// N numbers the control planes that run at the same time; it selects the range of the ClusterIPs.
	N          int
	Dir        string
	Config     *rest.Config // for the cluster administrator
	Kubeconfig string       // the same as a file
	// Plane is the folder of a borrowed control plane; see Borrow.
	Plane string

	bin        string
	kubectl    kubectls
	tempDir    bool
	unlock     func()
	processes  []*Process
	forwarders []*Forwarder
	ports      atomic.Int32 // the number of ports that were assigned
}

// StartT starts a control plane for a test and stops it when the test ends. It fails the test with one clear sentence if the control
// plane cannot be built or started.
func StartT(t testing.TB) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	c, err := Start(ctx, Options{Progress: os.Stderr, Env: RareCollections})
	if err != nil {
		t.Fatalf("devcluster: %v", err)
	}
	t.Cleanup(c.Stop)
	return c
}

// Start builds the control plane if needed and starts it. It returns when the API server is ready and the default service account
// exists.
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	r, err := releaseOf(o.Version)
	if o.Version == "" {
		r, err = selected()
	}
	if err != nil {
		return nil, err
	}
	bin, err := r.build(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: o.Dir, bin: bin}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	if c.Dir == "" {
		c.tempDir = true
		if c.Dir, err = os.MkdirTemp("", "ephor-devcluster-"); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, err
	}
	// Another control plane, on the same port, had other kinds.
	c.kubectl = newKubectls(bin, c.path("kubectl-cache"))
	if c.N, c.unlock, err = takeNumber(); err != nil {
		return nil, err
	}
	start := time.Now()
	if err := c.startControlPlane(ctx, o); err != nil {
		return nil, err
	}
	if o.Progress != nil {
		fmt.Fprintf(o.Progress, "Control plane %d (Kubernetes %s) is ready after %s.\n", c.N, r.version, time.Since(start).Round(100*time.Millisecond))
	}
	return c, nil
}

// takeNumber reserves a number that no other control plane on this machine uses.
func takeNumber() (int, func(), error) {
	dir := filepath.Join(os.TempDir(), "ephor-devcluster-numbers")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return 0, nil, err
	}
	_ = os.Chmod(dir, 0o1777) // another user of the machine may need it later
	for n := range 100 {
		f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(n)), os.O_CREATE|os.O_RDWR, 0o666)
		if err != nil {
			continue // the lock belongs to another user
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			f.Close()
			continue
		}
		return n, func() { f.Close() }, nil
	}
	return 0, nil, errors.New("100 development control planes run already")
}

func (c *Cluster) startControlPlane(ctx context.Context, o Options) error {
	ports, err := c.freePorts(4)
	if err != nil {
		return err
	}
	saKey := c.path("sa.key")
	if err := writeRSAKey(saKey); err != nil {
		return err
	}
	certs, err := c.writeCertificates(net.IPv4(127, byte(96+c.N), 0, 1))
	if err != nil {
		return err
	}

	etcdURL := "http://127.0.0.1:" + strconv.Itoa(ports[0])
	peerURL := "http://127.0.0.1:" + strconv.Itoa(ports[1])
	if _, err := c.start("etcd", o.Env, c.bin, "etcd",
		"--data-dir="+c.path("etcd"), "--unsafe-no-fsync", "--log-level=warn", "--name=dev",
		"--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL, "--initial-cluster=dev="+peerURL,
	); err != nil {
		return err
	}
	host := "https://127.0.0.1:" + strconv.Itoa(ports[2])
	if gates := os.Getenv(GatesEnv); gates != "" {
		o.APIServerFlags = append(slices.Clone(o.APIServerFlags), "--feature-gates="+gates)
		if strings.Contains(gates, "AllAlpha=true") { // these features wait for their APIs
			o.APIServerFlags = append(o.APIServerFlags, "--runtime-config=api/all=true")
		}
	}
	api, err := c.start("kube-apiserver", o.Env, c.bin, append([]string{"kube-apiserver",
		"--etcd-servers=" + etcdURL, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(ports[2]), "--cert-dir=" + c.path("apiserver"),
		"--client-ca-file=" + c.path("ca.crt"), "--tls-cert-file=" + c.path("apiserver.crt"), "--tls-private-key-file=" + c.path("apiserver.key"),
		fmt.Sprintf("--service-cluster-ip-range=127.%d.0.0/16", 96+c.N), "--endpoint-reconciler-type=none",
		"--service-account-issuer=https://kubernetes.default.svc", "--api-audiences=https://kubernetes.default.svc",
		"--service-account-key-file=" + saKey, "--service-account-signing-key-file=" + saKey,
		"--authorization-mode=RBAC", "--allow-privileged=true",
	}, o.APIServerFlags...)...)
	if err != nil {
		return err
	}
	if err := c.waitReady(ctx, api, host); err != nil {
		return err
	}
	c.Config = &rest.Config{Host: host, TLSClientConfig: rest.TLSClientConfig{CAData: certs.ca, CertData: certs.adminCert, KeyData: certs.adminKey}, QPS: -1}
	if c.Kubeconfig, err = c.writeKubeconfig("admin", Admin, certs.admin()); err != nil {
		return err
	}
	if _, err := c.start("kube-controller-manager", o.Env, c.bin, append([]string{"kube-controller-manager",
		"--kubeconfig=" + c.Kubeconfig, "--leader-elect=false", "--use-service-account-credentials",
		"--service-account-private-key-file=" + saKey, "--root-ca-file=" + c.path("ca.crt"),
		"--cluster-signing-cert-file=" + c.path("ca.crt"), "--cluster-signing-key-file=" + c.path("ca.key"),
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(ports[3]), "--cert-dir=" + c.path("kcm"),
		"--authentication-kubeconfig=" + c.Kubeconfig, "--authorization-kubeconfig=" + c.Kubeconfig,
		// Deleting a namespace takes some hundred requests, and tests wait for it.
		"--kube-api-qps=1000", "--kube-api-burst=2000",
	}, o.ControllerManagerFlags...)...); err != nil {
		return err
	}
	return c.Wait(ctx, "the default service account", func() error {
		_, err := c.Kubectl(ctx, nil, "get", "serviceaccount", "default", "-n", "default")
		return err
	})
}

func (c *Cluster) waitReady(ctx context.Context, api *Process, host string) error {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // only for /readyz, before the server's own CA is known
	}}
	return c.Wait(ctx, "the API server", func() error {
		select {
		case <-api.Done():
			return permanent{fmt.Errorf("kube-apiserver ended:\n%s", api.Tail(20))}
		default:
		}
		resp, err := client.Get(host + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
}

// ServiceAccountKubeconfig writes a kubeconfig for the service account, and returns its path.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	token, err := c.Kubectl(ctx, nil, "create", "token", name, "-n", namespace, "--duration=24h")
	if err != nil {
		return "", err
	}
	return c.WriteKubeconfig(namespace+"-"+name, string(bytes.TrimSpace([]byte(token))))
}

// WriteKubeconfig writes a kubeconfig for the bearer token and returns its path.
func (c *Cluster) WriteKubeconfig(name, token string) (string, error) {
	return c.writeKubeconfig(name, "dev", &clientcmdapi.AuthInfo{Token: token})
}

func (c *Cluster) writeKubeconfig(name, user string, auth *clientcmdapi.AuthInfo) (string, error) {
	kc := clientcmdapi.NewConfig()
	kc.Clusters["dev"] = &clientcmdapi.Cluster{Server: c.Config.Host, CertificateAuthorityData: c.Config.CAData}
	kc.AuthInfos[user] = auth
	kc.Contexts["dev"] = &clientcmdapi.Context{Cluster: "dev", AuthInfo: user}
	kc.CurrentContext = "dev"
	path := c.path(name + ".kubeconfig")
	return path, clientcmd.WriteToFile(*kc, path)
}

// Run starts a program of ours beside the control plane; Stop ends it.
func (c *Cluster) Run(name string, env []string, path string, args ...string) (*Process, error) {
	return c.start(name, env, path, args...)
}

func (c *Cluster) start(name string, env []string, path string, args ...string) (*Process, error) {
	p, err := startProcess(name, c.path(name+".log"), env, path, args...)
	if err == nil {
		c.processes = append(c.processes, p)
	}
	return p, err
}

// Stop ends everything that the cluster started, last first, and removes its temporary folder.
func (c *Cluster) Stop() {
	c.kubectl.close()
	for _, f := range c.forwarders {
		f.Close()
	}
	for i := len(c.processes) - 1; i >= 0; i-- {
		p := c.processes[i]
		if p.Name == "etcd" || strings.HasPrefix(p.Name, APIServer) || p.Name == "kube-controller-manager" {
			p.Kill() // no data of value are lost, and the API server would otherwise drain for a minute
			continue
		}
		_ = p.Stop(10 * time.Second)
	}
	c.processes, c.forwarders = nil, nil
	if c.unlock != nil {
		c.unlock()
		c.unlock = nil
	}
	if c.tempDir {
		_ = os.RemoveAll(c.Dir)
	}
}

func (c *Cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.Dir}, elem...)...)
}

// The ports of control planes: each control plane has its own range, below the ranges from which the kernel takes ports for connections
// and for listeners without a port. A free port stays free until its process listens on it: no process of another control plane takes
// it meanwhile.
const (
	firstPort    = 10_240
	portsOfPlane = 200
)

// freePorts finds n loopback ports without a listener, in the range of the control plane.
func (c *Cluster) freePorts(n int) ([]int, error) {
	var ports []int
	for range portsOfPlane {
		next := int(c.ports.Add(1)-1) % portsOfPlane
		port := firstPort + c.N*portsOfPlane + next
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			continue // it is in use
		}
		l.Close()
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	first := firstPort + c.N*portsOfPlane
	return nil, fmt.Errorf("of the ports %d to %d of 127.0.0.1, fewer than %d are free", first, first+portsOfPlane-1, n)
}

// FreePort finds a loopback port without a listener, for a process beside the control plane.
func (c *Cluster) FreePort() (int, error) {
	ports, err := c.freePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

// FreePort finds a loopback port without a listener, for a program without a control plane. Another program may take it first.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func writeRSAKey(path string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return os.WriteFile(path, pem.EncodeToMemory(block), 0o600)
}
