package quickstart

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"ephor.invalid/ephor/internal/devcluster"
)

// node does the work of a cluster's nodes for the Deployments of one namespace.
type node struct {
	cluster   *devcluster.Cluster
	namespace string
	dir       string // of programs

	lock   sync.Mutex
	images []string // of the Deployments
}

// found returns the images of the Deployments.
func (n *node) found() []string {
	n.lock.Lock()
	defer n.lock.Unlock()
	return n.images
}

// run waits for the number of Deployments, starts the programs of their images, and keeps Pods ready until the context ends.
func (n *node) run(ctx context.Context, deployments int) error {
	client, err := kubernetes.NewForConfig(n.cluster.Config)
	if err != nil {
		return err
	}
	var program string
	for program == "" {
		if err := pause(ctx); err != nil {
			return err
		}
		found, err := client.AppsV1().Deployments(n.namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(found.Items) < deployments {
			continue
		}
		var images []string
		for _, d := range found.Items {
			images = append(images, d.Spec.Template.Spec.Containers[0].Image)
		}
		n.lock.Lock()
		n.images = images
		n.lock.Unlock()
		if program, err = n.pull(images[0]); err != nil {
			return err
		}
	}
	ephor, err := n.cluster.Adopt(ctx, n.namespace, program)
	if err != nil {
		return err
	}
	for _, component := range ephor.Components() {
		if _, err := ephor.Start(ctx, component); err != nil {
			return err
		}
	}
	for {
		if err := setReady(ctx, client, n.namespace); err != nil && ctx.Err() == nil {
			return err
		}
		if err := pause(ctx); err != nil {
			return nil
		}
	}
}

// pull extracts the program from an image and returns its path.
func (n *node) pull(image string) (string, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return "", err
	}
	content, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return "", err
	}
	config, err := content.ConfigFile()
	if err != nil || len(config.Config.Entrypoint) == 0 {
		return "", fmt.Errorf("%s names no program: %v", image, err)
	}
	layers := mutate.Extract(content)
	defer layers.Close()
	for r := tar.NewReader(layers); ; {
		h, err := r.Next()
		if err != nil {
			return "", fmt.Errorf("%s has no %s: %w", image, config.Config.Entrypoint[0], err)
		}
		if path.Join("/", h.Name) != path.Join("/", config.Config.Entrypoint[0]) {
			continue
		}
		file := filepath.Join(n.dir, "ephor")
		out, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
		if err != nil {
			return "", err
		}
		_, err = io.CopyN(out, r, h.Size)
		return file, errors.Join(err, out.Close())
	}
}

// setReady sets the Pods of a namespace that are not ready to ready.
func setReady(ctx context.Context, client kubernetes.Interface, namespace string) error {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Status.Phase == corev1.PodRunning || p.DeletionTimestamp != nil {
			continue
		}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		if _, err := client.CoreV1().Pods(namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
			continue // it changed meanwhile, and is handled in the next round
		}
	}
	return nil
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(300 * time.Millisecond):
		return nil
	}
}
