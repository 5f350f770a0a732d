package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ephor-dev/ephor/internal/devcluster"
)

//go:embed standard.yaml
var standardRBAC []byte

// standardFlags are what the configuration "standard" of the suite gives the admission controller beyond the defaults.
var standardFlags = []string{"--enablePolicyException", "--exceptionNamespace=*", "--omitEvents=", "--crdWatcher", "--v=4"}

// shard is a control plane of its own with Ephor on it.
type shard struct {
	dir     string
	suite   string // a copy: tests write files beside themselves
	path    string // the programs that tests call come first
	cluster *devcluster.Cluster
	ephor   *devcluster.Ephor
	// controllers are the processes that have to be ready while a test runs.
	controllers []*devcluster.Replica
	cleaner     *cleaner
	webhooks    map[string]string
}

// startShard starts the control plane and every controller, and returns when all are ready.
func startShard(ctx context.Context, p programs, suite, dir string, progress io.Writer) (_ *shard, err error) {
	s := &shard{dir: dir, suite: filepath.Join(dir, "suite"), path: filepath.Join(dir, "bin")}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(s.path, 0o755), os.CopyFS(s.suite, os.DirFS(suite))); err != nil {
		return nil, err
	}
	for name, target := range map[string]string{"kyverno": p.ephor, "kubectl": p.devcluster} {
		if err := os.Symlink(target, filepath.Join(s.path, name)); err != nil {
			return nil, err
		}
	}
	if s.cluster, err = devcluster.Start(ctx, devcluster.Options{Dir: filepath.Join(dir, "cluster"), Progress: progress}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if s.ephor, err = s.cluster.InstallEphor(ctx); err != nil {
		return nil, err
	}
	if _, err = s.cluster.Kubectl(ctx, standardRBAC, "apply", "-f", "-"); err != nil {
		return nil, err
	}
	if err = s.startControllers(ctx); err != nil {
		return nil, err
	}
	// What the controllers write while they start belongs to the state that tests find.
	if err = s.steady(ctx); err != nil {
		return nil, err
	}
	if s.cleaner, err = newCleaner(ctx, s.cluster.Config); err != nil {
		return nil, err
	}
	s.webhooks, err = s.cleaner.webhooks(ctx)
	return s, err
}

// startControllers starts the controllers that do not run.
func (s *shard) startControllers(ctx context.Context) error {
	var running []*devcluster.Replica
	for _, c := range s.controllers {
		select {
		case <-c.Done():
		default:
			running = append(running, c)
		}
	}
	s.controllers = running
	if len(running) == 0 {
		r, err := s.ephor.StartAdmission(ctx, standardFlags...)
		if err != nil {
			return err
		}
		s.controllers = append(s.controllers, r)
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

// ready tells whether every controller runs and answers its readiness probe.
func (s *shard) ready() error {
	for _, c := range s.controllers {
		if err := ready(c); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

func (s *shard) stop() {
	if s.cluster != nil {
		s.cluster.Stop()
	}
}
