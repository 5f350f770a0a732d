// Command demo shows Ephor on a real control plane on this machine: it starts one, installs Ephor, applies the Pod
// Security policies of examples/, creates a good Pod and a bad one, and keeps running so that you can try more.
//
//	make demo                # until Ctrl-C
//	make demo ARGS=--once    # ends after the demonstration, non-zero if anything went wrong
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ephor.invalid/ephor/internal/devcluster"
)

func main() {
	once := flag.Bool("once", false, "end after the demonstration")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := demo(ctx, *once); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context, once bool) error {
	root, err := devcluster.Root()
	if err != nil {
		return err
	}
	c, err := devcluster.Start(ctx, devcluster.Options{Progress: os.Stdout})
	if err != nil {
		return err
	}
	defer c.Stop()

	fmt.Println("Installing Ephor: CustomResourceDefinitions, RBAC, Services; starting its admission controller ...")
	ephor, err := c.InstallEphor(ctx)
	if err != nil {
		return err
	}
	replica, err := ephor.StartAdmission(ctx)
	if err != nil {
		return err
	}

	policies := filepath.Join(root, "examples", "pod-security")
	fmt.Println("Applying the Pod Security policies of examples/pod-security ...")
	if _, err := c.Kubectl(ctx, nil, "apply", "-f", policies); err != nil {
		return err
	}
	start := time.Now()
	if _, err := c.Kubectl(ctx, nil, "wait", "--for=condition=Ready", "clusterpolicies", "--all"); err != nil {
		return err
	}
	fmt.Printf("All policies are Ready after %s.\n\n", time.Since(start).Round(100*time.Millisecond))

	good := filepath.Join(root, "examples", "pod-security-tests", "disallow-privileged-containers", "good-pod.yaml")
	bad := filepath.Join(root, "examples", "pod-security-tests", "disallow-privileged-containers", "bad-pod.yaml")
	fmt.Println("$ kubectl apply -f good-pod.yaml")
	out, err := c.Kubectl(ctx, nil, "apply", "-f", good)
	if err != nil {
		return fmt.Errorf("the good Pod was not admitted: %w", err)
	}
	fmt.Println(out)
	fmt.Println("$ kubectl apply -f bad-pod.yaml")
	_, err = c.Kubectl(ctx, nil, "apply", "-f", bad)
	if err == nil {
		return errors.New("the privileged Pod was admitted")
	}
	if !strings.Contains(err.Error(), "disallow-privileged-containers:") {
		return fmt.Errorf("the privileged Pod was refused, but not by its policy: %w", err)
	}
	_, message, _ := strings.Cut(err.Error(), "exit status 1: ")
	fmt.Println(message)

	if once {
		fmt.Println("\nThat is all; `make demo` without ARGS=--once stays up for you to try more.")
		return nil
	}
	fmt.Printf("\nEphor runs. Its log: %s\n\n  export KUBECONFIG=%s\n  alias kubectl='%s'\n\nThree things to try:\n", replica.Log, c.Kubeconfig, c.KubectlPath())
	fmt.Println("  kubectl get clusterpolicies -o wide")
	fmt.Println("  kubectl create deployment web --image=nginx        # denied: autogen rules cover what creates Pods, too")
	fmt.Printf("  bin/ephor apply %s --resource %s\n", relative(root, policies), relative(root, bad))
	fmt.Println("\nCtrl-C ends it.")
	<-ctx.Done()
	fmt.Println("Stopping ...")
	return nil
}

func relative(root, path string) string {
	if r, err := filepath.Rel(root, path); err == nil {
		return r
	}
	return path
}
