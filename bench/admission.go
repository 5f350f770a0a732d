package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ephor-dev/ephor/bench/load"
	"github.com/ephor-dev/ephor/internal/devcluster"
)

// settle is how long the admission process rests before its memory is read.
const settle = 60 * time.Second

// startAdmission starts a control plane and our admission process with the policies of a folder, and returns when it
// refuses a bad Pod, that is when the policies are in force.
func (b *bench) startAdmission(policies string) (*devcluster.Cluster, *load.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	c, err := devcluster.Start(ctx, devcluster.Options{})
	if err != nil {
		return nil, nil, err
	}
	s, err := func() (*load.Server, error) {
		ephor, err := c.InstallEphor(ctx)
		if err != nil {
			return nil, err
		}
		replica, err := ephor.StartAdmission(ctx, devcluster.LongPaths...)
		if err != nil {
			return nil, err
		}
		if _, err := c.Kubectl(ctx, nil, "apply", "-f", policies); err != nil {
			return nil, err
		}
		if _, err := c.Kubectl(ctx, nil, "wait", "--for=condition=Ready", "--timeout=120s", "clusterpolicies", "--all"); err != nil {
			return nil, err
		}
		path, err := ephor.WebhookPath(ctx, devcluster.Admission, "/validate/fail")
		if err != nil {
			return nil, err
		}
		s := load.NewServer("https://"+replica.Addr+path+"?timeout=10s", replica.PID(), connections)
		return s, c.Wait(ctx, "the policies to be in force", func() error {
			allowed, err := s.Ask(load.Review(load.Pod("shop", true)))
			if err == nil && allowed {
				err = errors.New("the bad Pod is still admitted")
			}
			return err
		})
	}()
	if err != nil {
		c.Stop()
		return nil, nil, err
	}
	return c, s, nil
}

// rest measures the memory of the admission process with the 18 policies, a minute after it became ready.
func (b *bench) rest() error {
	c, s, err := b.startAdmission(filepath.Join(b.root, "examples", "pod-security"))
	if err != nil {
		return err
	}
	defer c.Stop()
	time.Sleep(settle)
	mb, err := load.ResidentMB(s.PID)
	if err != nil {
		return err
	}
	fmt.Printf("admission process at rest, %s after ready: %.0f MB resident\n", settle, mb)
	b.row("rest", "MB", mb, 80)
	return nil
}
