package load

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"ephor.invalid/ephor/internal/devcluster"
)

// StartNoop builds the no-op webhook into the folder and starts it, with this number of connections to it. root is the
// root of the repository.
func StartNoop(root, dir string, connections int) (*Server, func(), error) {
	bin := filepath.Join(dir, "noop")
	build := exec.Command("go", "build", "-o", bin, "./bench/noop")
	build.Dir, build.Stderr = root, os.Stderr
	if err := build.Run(); err != nil {
		return nil, nil, fmt.Errorf("build the no-op webhook: %w", err)
	}
	port, err := devcluster.FreePort()
	if err != nil {
		return nil, nil, err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	cmd := exec.Command(bin, "-addr", addr)
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop := func() { cmd.Process.Kill(); cmd.Wait() }
	s := NewServer("https://"+addr+"/validate", cmd.Process.Pid, connections)
	if err := s.awaitAnswer(Review(Pod("shop", false))); err != nil {
		stop()
		return nil, nil, err
	}
	return s, stop, nil
}

// awaitAnswer waits until the server answers a review.
func (s *Server) awaitAnswer(body []byte) error {
	var err error
	for range 100 {
		if _, err = s.Ask(body); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}
