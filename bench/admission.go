package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/lifecycle"
)

// settle is how long the admission process rests before its memory is read.
const settle = 60 * time.Second

// The policies for measurements of the admission process: the same controls as classic policies and in CEL.
const (
	classicPolicies = "pod-security"
	celPolicies     = "pod-security-cel"
)

// startAdmission starts a control plane and our admission process with folders of examples/, and returns when the process denies a bad Pod, so that
// the first folder's policies are in force, and collects as it does from then on (lifecycle.StartTime).
func (b *bench) startAdmission(folders ...string) (*devcluster.Cluster, *load.Server, error) {
	c, s, err := b.startReplicas("dev", nil, [][]string{nil}, folders...)
	if err != nil {
		return nil, nil, err
	}
	return c, s[0], nil
}

// startReplicas does the same with a replica for each list of flags, after prepare, with an installation of the chart with these values.
func (b *bench) startReplicas(values string, prepare func(context.Context, *devcluster.Ephor) error, flags [][]string, folders ...string) (*devcluster.Cluster, []*load.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	c, err := devcluster.Start(ctx, devcluster.Options{})
	if err != nil {
		return nil, nil, err
	}
	s, err := func() ([]*load.Server, error) {
		ephor, err := c.Install(ctx, values)
		if err != nil {
			return nil, err
		}
		if prepare != nil {
			if err := prepare(ctx, ephor); err != nil {
				return nil, err
			}
		}
		var replicas []*devcluster.Replica
		for _, f := range flags {
			r, err := ephor.StartAdmission(ctx, slices.Concat(devcluster.LongPaths, f)...)
			if err != nil {
				return nil, err
			}
			replicas = append(replicas, r)
		}
		started := time.Now()
		for _, folder := range folders {
			if _, err := c.Kubectl(ctx, nil, "apply", "-f", filepath.Join(b.root, "examples", folder)); err != nil {
				return nil, err
			}
			if err := policiesReady(ctx, c, folder); err != nil {
				return nil, err
			}
		}
		var servers []*load.Server
		for _, replica := range replicas {
			urls, err := webhookURLs(ctx, c, folders[0], replica.Addr)
			if err != nil {
				return nil, err
			}
			s := load.NewServer(urls[0], replica.PID(), connections)
			s.Metrics = replica.MetricsAddr
			servers = append(servers, s)
			if err := c.Wait(ctx, "the policies to be in force", func() error {
				allowed, err := s.Ask(load.Review(load.Pod("shop", true)))
				if err == nil && allowed {
					err = errors.New("the bad Pod is still admitted")
				}
				return err
			}); err != nil {
				return nil, err
			}
		}
		time.Sleep(time.Until(started.Add(lifecycle.StartTime)))
		return servers, nil
	}()
	if err != nil {
		c.Stop()
		return nil, nil, err
	}
	return c, s, nil
}

// webhookURLs returns the URLs, at a replica's address, of the webhooks that evaluate the policies of a folder of examples for a Pod without particular labels.
func webhookURLs(ctx context.Context, c *devcluster.Cluster, folder, addr string) (out []string, err error) {
	const configuration = "kyverno-resource-validating-webhook-cfg"
	webhook := "validate.kyverno.svc-fail"
	if folder == celPolicies {
		webhook = "vpol.validate.kyverno.svc-fail"
	}
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	list, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, configuration, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Webhooks {
		w := &list.Webhooks[i]
		pods := slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
			return slices.ContainsFunc(r.Resources, func(resource string) bool { return resource == "*" || resource == "pods" || resource == "pods/*" })
		})
		selective := w.ObjectSelector != nil && len(w.ObjectSelector.MatchLabels)+len(w.ObjectSelector.MatchExpressions) > 0
		if !strings.HasPrefix(w.Name, webhook) || !pods || selective {
			continue
		}
		path := ""
		switch {
		case w.ClientConfig.URL != nil:
			u, err := url.Parse(*w.ClientConfig.URL)
			if err != nil {
				return nil, err
			}
			path = u.Path
		case w.ClientConfig.Service != nil && w.ClientConfig.Service.Path != nil:
			path = *w.ClientConfig.Service.Path
		}
		out = append(out, "https://"+addr+path+"?timeout=10s")
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is no webhook %s for Pods in %s", webhook, configuration)
	}
	return out, nil
}

// rest measures the memory of the admission process a minute after it became ready: with the 18 classic policies, and additionally with the
// 18 policies in CEL.
func (b *bench) rest() error {
	for _, set := range []struct {
		row, policies string
		folders       []string
		target        float64
	}{
		{"rest", "18 classic policies", []string{classicPolicies}, 78},
		{"rest, both families", "18 classic policies and 18 in CEL", []string{classicPolicies, celPolicies}, 90},
	} {
		if err := b.atRest(set.row, set.policies, set.target, set.folders...); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) atRest(row, policies string, target float64, folders ...string) error {
	c, s, err := b.startAdmission(folders...)
	if err != nil {
		return err
	}
	defer c.Stop()
	time.Sleep(settle)
	mb, err := load.ResidentMB(s.PID)
	if err != nil {
		return err
	}
	before, err := load.CPUTime(s.PID)
	if err != nil {
		return err
	}
	time.Sleep(settle)
	after, err := load.CPUTime(s.PID)
	if err != nil {
		return err
	}
	fmt.Printf("admission process at rest with %s, %s after ready: %.1f MB resident, then %d ms CPU in %s\n", policies, settle, mb, (after - before).Milliseconds(), settle)
	b.row(row, "MB", mb, target)
	return nil
}
