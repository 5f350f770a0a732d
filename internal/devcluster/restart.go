package devcluster

import (
	"context"
	"fmt"
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
	old.Kill()
	p, err := old.again()
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
