package devcluster

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The parts of the control plane, for Part and Restart.
const (
	Etcd      = "etcd"
	APIServer = "kube-apiserver"
)

// Part returns a running part of the control plane, which fault tests stop (SIGSTOP) and continue.
func (c *Cluster) Part(name string) (*Process, error) {
	for _, p := range c.processes {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no process of the control plane is called %q", name)
}

// Restart kills a part of the control plane and starts it again, with the same ports, data and certificates. It returns
// when the API server is ready.
func (c *Cluster) Restart(ctx context.Context, name string) error {
	old, err := c.Part(name)
	if err != nil {
		return err
	}
	return c.replace(ctx, old, old.cmd.Path)
}

// Upgrade replaces the API server by one of another minor version, such as 1.37, with the same port, data and certificates. It returns when the
// new one is ready.
func (c *Cluster) Upgrade(ctx context.Context, minor string) error {
	bin, err := c.binaryOf(ctx, minor)
	if err != nil {
		return err
	}
	old, err := c.Part(APIServer)
	if err != nil {
		return err
	}
	return c.replace(ctx, old, bin)
}

// replace kills a process and starts it again, with another binary.
func (c *Cluster) replace(ctx context.Context, old *Process, bin string) error {
	old.Kill()
	p, err := startProcess(old.Name, old.Log, old.env, bin, old.cmd.Args[1:]...)
	if err != nil {
		return err
	}
	for i := range c.processes {
		if c.processes[i] == old {
			c.processes[i] = p
		}
	}
	api, err := c.Part(APIServer)
	if err != nil {
		return err
	}
	return c.waitReady(ctx, api, c.Config.Host)
}

// Beside starts a second API server on the same etcd, of another minor version, such as 1.37. It returns its process and its address when it is
// ready.
func (c *Cluster) Beside(ctx context.Context, minor string) (*Process, string, error) {
	bin, err := c.binaryOf(ctx, minor)
	if err != nil {
		return nil, "", err
	}
	first, err := c.Part(APIServer)
	if err != nil {
		return nil, "", err
	}
	port, err := c.FreePort()
	if err != nil {
		return nil, "", err
	}
	args := slices.Clone(first.cmd.Args[1:])
	for i, a := range args {
		switch {
		case strings.HasPrefix(a, "--secure-port="):
			args[i] = "--secure-port=" + strconv.Itoa(port)
		case strings.HasPrefix(a, "--cert-dir="):
			args[i] = "--cert-dir=" + c.path("apiserver-"+minor)
		}
	}
	p, err := c.start(APIServer+"-"+minor, first.env, bin, args...)
	if err != nil {
		return nil, "", err
	}
	host := "https://127.0.0.1:" + strconv.Itoa(port)
	return p, host, c.waitReady(ctx, p, host)
}

func (c *Cluster) binaryOf(ctx context.Context, minor string) (string, error) {
	r, err := releaseOf(minor)
	if err != nil {
		return "", err
	}
	return r.build(ctx, os.Stderr)
}
