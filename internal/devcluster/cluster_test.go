package devcluster

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
)

// The control plane starts, answers kubectl, and a Service's ClusterIP reaches a process behind it, and another one if the first refuses
// the connection.
func TestClusterAndForwarder(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	c := StartT(t)
	ctx := context.Background()
	version, err := Version()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Kubectl(ctx, nil, "version")
	if err != nil || !strings.Contains(out, "Server Version: "+version) {
		t.Fatalf("kubectl version: %v\n%s", err, out)
	}
	if _, err := c.Kubectl(ctx, []byte(`
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: default}
spec: {ports: [{port: 8443}]}
`), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	live := greeter(t, "hello")
	dead, err := c.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Forward(ctx, "default", "echo", Backend{Addr: fmt.Sprintf("127.0.0.1:%d", dead)}, Backend{Addr: live})
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if got := greeting(t, f.listener.Addr().String()); got != "hello\n" {
			t.Fatalf("got %q through the ClusterIP", got)
		}
	}
	kubeconfig, err := c.ServiceAccountKubeconfig(ctx, "default", "default")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(ctx, nil, "get", "nodes", "--kubeconfig="+kubeconfig); err == nil || !strings.Contains(err.Error(), "cannot list resource") {
		t.Errorf("a service account without roles could list nodes: %v", err)
	}
}

func greeter(t *testing.T, text string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(conn, text)
			conn.Close()
		}
	}()
	return l.Addr().String()
}

func greeting(t *testing.T, addr string) string {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	line, _ := bufio.NewReader(conn).ReadString('\n')
	return line
}
