package devcluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kubectl runs kubectl as administrator. The error contains the output of kubectl. `kubectl wait` and `kubectl delete` wait as long as Patience
// allows, unless the arguments say how long. Without a limit, `delete --ignore-not-found` waits a week for the deletion of an object that is
// created just after it was not found.
func (c *Cluster) Kubectl(ctx context.Context, stdin []byte, args ...string) (string, error) {
	if (args[0] == "wait" || args[0] == "delete") && !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--timeout") }) {
		args = append(slices.Clone(args), "--timeout="+Patience().String())
	}
	run := c.kubectl.run
	// `auth can-i` ends its process by itself, and /dev/stdin is that of the process.
	if args[0] == "auth" || slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "/dev/stdin") }) {
		run = c.kubectl.alone
	}
	a, err := run(ctx, stdin, append([]string{"--kubeconfig=" + c.Kubeconfig}, args...))
	// kubectl does not wait for an object whose conditions the API server has not written yet, such as a definition.
	for end := time.Now().Add(Patience()); err == nil && args[0] == "wait" && time.Now().Before(end) && bytes.Contains(a.Stderr, []byte("status.conditions accessor error: <nil>")); {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(Pause(0)):
		}
		a, err = run(ctx, stdin, append([]string{"--kubeconfig=" + c.Kubeconfig}, args...))
	}
	if err == nil && a.Code != 0 {
		err = fmt.Errorf("exit status %d", a.Code)
	}
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", args[0], err, bytes.TrimSpace(a.Stderr))
	}
	return string(a.Stdout), err
}

// KubectlPath returns a command line prefix that runs this cluster's kubectl.
func (c *Cluster) KubectlPath() string { return c.bin + " kubectl" }

// kubectls are processes of `devcluster kubectl-server`, each for one command at a time. With a process for each command the tests of e2e/cel
// and their control plane used 101 s of CPU, with these 54 s (`time go test ./e2e/cel`).
type kubectls struct {
	bin string
	env []string

	mu     sync.Mutex
	idle   []*kubectlServer
	closed bool
}

// newKubectls returns kubectls with a cache of discovery of their own. Rare collections (GOGC=400) take 4.9 s of CPU for 48 commands instead of 5.8 to 6.5 s.
func newKubectls(bin, cache string) kubectls {
	return kubectls{bin: bin, env: []string{"KUBECACHEDIR=" + cache, "GOGC=400", "GOMEMLIMIT=1GiB"}}
}

// retirement is the number of commands after which a kubectl-server ends: each leaves some memory in the process.
const retirement = 200

type kubectlServer struct {
	commands int
	process  *exec.Cmd
	ask      *json.Encoder
	answers  *json.Decoder
	end      func() error
	stderr   bytes.Buffer // of the process; the output of commands is in their answers
}

// kubectlAnswer is the answer of a kubectl-server.
type kubectlAnswer struct {
	Stdout []byte `json:"stdout"`
	Stderr []byte `json:"stderr"`
	Code   int    `json:"code"`
}

// run runs one command; the error says why there is no answer.
func (k *kubectls) run(ctx context.Context, stdin []byte, args []string) (a kubectlAnswer, err error) {
	s, err := k.acquire()
	if err != nil {
		return a, err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.process.Process.Kill() })
	defer stop()
	err = s.ask.Encode(struct {
		Args  []string `json:"args"`
		Stdin []byte   `json:"stdin"`
	}{args, stdin})
	if err == nil {
		err = s.answers.Decode(&a)
	}
	if err != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		return a, errors.Join(context.Cause(ctx), fmt.Errorf("%w: %s", err, bytes.TrimSpace(s.stderr.Bytes())))
	}
	k.give(s)
	return a, nil
}

// alone runs one command in a process of its own.
func (k *kubectls) alone(ctx context.Context, stdin []byte, args []string) (a kubectlAnswer, err error) {
	cmd := exec.CommandContext(ctx, k.bin, append([]string{"kubectl"}, args...)...)
	cmd.Env, cmd.Stdin = append(os.Environ(), k.env...), bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		a.Code, err = exit.ExitCode(), nil
	}
	a.Stdout, a.Stderr = stdout.Bytes(), stderr.Bytes()
	return a, err
}

// acquire returns an idle server, or a new one.
func (k *kubectls) acquire() (*kubectlServer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if last := len(k.idle) - 1; last >= 0 {
		s := k.idle[last]
		k.idle = k.idle[:last]
		return s, nil
	}
	s := &kubectlServer{process: exec.Command(k.bin, "kubectl-server")}
	s.process.Env = append(os.Environ(), k.env...)
	s.process.Stderr = &s.stderr
	in, err := s.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.ask, s.answers, s.end = json.NewEncoder(in), json.NewDecoder(out), in.Close
	return s, s.process.Start()
}

// give makes a server idle, or ends it if it has run enough commands or the cluster has stopped meanwhile.
func (k *kubectls) give(s *kubectlServer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.commands++; k.closed || s.commands == retirement {
		s.stop()
		return
	}
	k.idle = append(k.idle, s)
}

// close ends the idle servers. A busy one ends after its command.
func (k *kubectls) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.idle {
		s.stop()
	}
	k.idle, k.closed = nil, true
}

func (s *kubectlServer) stop() {
	_ = s.end()
	_ = s.process.Wait()
}
