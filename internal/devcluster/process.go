package devcluster

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Process is a program that the cluster started. It ends with the process that started it, however that ends.
type Process struct {
	Name string
	Log  string // the file with its stdout and stderr

	env  []string // added to the environment
	cmd  *exec.Cmd
	done chan struct{}
	err  error
	once sync.Once
}

// startProcess runs path with args; env is added to the environment.
func startProcess(name, logFile string, env []string, path string, args ...string) (*Process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own descriptor
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	// Pdeathsig: no process stays behind when a test is killed. Setpgid: Ctrl-C reaches this process first, which then stops its children
	// in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	p := &Process{Name: name, Log: logFile, env: env, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Pdeathsig fires when the thread that forked ends, so the goroutine that waits must also fork, and must keep its thread. (The
		// thread then outlives the child.)
		runtime.LockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Kill ends the process at once (kill -9) and waits for it.
func (p *Process) Kill() {
	p.once.Do(func() { _ = p.cmd.Process.Kill() })
	<-p.done
}

// Stop asks the process to end (SIGTERM) and kills it after the grace period. It returns how the process ended.
func (p *Process) Stop(grace time.Duration) error {
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		p.Kill()
	}
	return p.err
}

// Tail returns the last lines of the log, for error messages.
func (p *Process) Tail(lines int) string {
	b, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	return lastLines(string(b), lines)
}
