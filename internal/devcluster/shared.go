package devcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"ephor.invalid/ephor/charts"
)

// sharedEnv names the folder of the shared control planes.
const sharedEnv = "EPHOR_CONTROL_PLANES"

// definitionsFile is the file with the definitions of a shared control plane, in its folder.
const definitionsFile = "definitions.yaml"

// Share starts n control planes that processes with the same environment share: Borrow gives each to one of them at a time. stop ends them.
// They have the definitions of the chart. To create and to remove these for each of twelve packages takes 6 s of CPU and 6 s more each time.
// flags returns the additional flags of the API server of the control plane in a folder.
func Share(ctx context.Context, n int, flags func(dir string) ([]string, error)) (stop func(), err error) {
	dir, err := os.MkdirTemp("", "ephor-planes-")
	if err != nil {
		return nil, err
	}
	var planes []*Cluster
	stop = func() {
		for _, c := range planes {
			c.Stop()
		}
		_ = os.RemoveAll(dir)
	}
	for i := range n {
		o := Options{Dir: filepath.Join(dir, strconv.Itoa(i)), Env: RareCollections}
		if err = os.MkdirAll(o.Dir, 0o700); err == nil {
			o.APIServerFlags, err = flags(o.Dir)
		}
		var c *Cluster
		if err == nil {
			c, err = Start(ctx, o)
		}
		if err == nil {
			planes = append(planes, c)
			err = c.defineChart(ctx)
		}
		if err == nil {
			err = os.WriteFile(c.path("number"), []byte(strconv.Itoa(c.N)), 0o600)
		}
		if err != nil {
			stop()
			return nil, err
		}
	}
	return stop, os.Setenv(sharedEnv, dir)
}

// defineChart applies the definitions of the chart, and stores them in the folder.
func (c *Cluster) defineChart(ctx context.Context) error {
	text, err := charts.YAML("dev")
	if err != nil {
		return err
	}
	r, err := readRender(text)
	if err != nil {
		return err
	}
	if err := c.define(ctx, r.definitions); err != nil {
		return err
	}
	return os.WriteFile(c.path(definitionsFile), r.definitions, 0o600)
}

// Borrow waits for a shared control plane that no other process uses, and returns it; nil if none is shared. Stop gives it back; before that
// the caller has to Reset it. One that was not reset is not given to others.
func Borrow(ctx context.Context) (*Cluster, error) {
	dir := os.Getenv(sharedEnv)
	if dir == "" {
		return nil, nil
	}
	for {
		usable := 0
		for i := 0; ; i++ {
			plane := filepath.Join(dir, strconv.Itoa(i))
			if _, err := os.Stat(filepath.Join(plane, "number")); err != nil {
				break
			}
			lock, err := os.OpenFile(filepath.Join(plane, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
			if err != nil {
				return nil, err
			}
			if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
				lock.Close()
				usable++
				continue
			}
			// The file exists while the control plane is used, and afterwards unless it was reset.
			used := filepath.Join(plane, "used")
			if f, err := os.OpenFile(used, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err != nil {
				lock.Close()
				continue
			} else {
				f.Close()
			}
			return borrowed(plane, func() { lock.Close() })
		}
		if usable == 0 {
			return nil, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waited in vain for one of the control planes in %s: %w", dir, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func borrowed(plane string, unlock func()) (*Cluster, error) {
	c := &Cluster{Plane: plane, unlock: unlock, tempDir: true}
	r, err := selected()
	if err != nil {
		return nil, err
	}
	c.bin = r.bin
	number, err := os.ReadFile(filepath.Join(plane, "number"))
	if err != nil {
		return nil, err
	}
	if c.N, err = strconv.Atoi(string(number)); err != nil {
		return nil, err
	}
	if c.Dir, err = os.MkdirTemp("", "ephor-devcluster-"); err != nil {
		return nil, err
	}
	c.kubectl = newKubectls(c.bin, c.path("kubectl-cache"))
	c.Kubeconfig = filepath.Join(plane, "admin.kubeconfig")
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return nil, err
	}
	c.Config.QPS = -1
	return c, nil
}

// Return resets a borrowed control plane, so that another process can use it.
func (c *Cluster) Return(ctx context.Context, before Inventory) error {
	for i := len(c.processes) - 1; i >= 0; i-- {
		_ = c.processes[i].Stop(10 * time.Second)
	}
	c.processes = nil
	if err := c.Reset(ctx, before); err != nil {
		return fmt.Errorf("reset the control plane: %w", err)
	}
	return os.Remove(filepath.Join(c.Plane, "used"))
}
