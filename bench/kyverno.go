package main

import (
	"context"
	"fmt"
	"strconv"

	"ephor.invalid/ephor/internal/devcluster"
)

// kyvernoWith returns the start of Kyverno's admission controller for a folder of examples, with the arguments of its install manifest.
// The definitions and the ConfigMaps are those of our chart, which are the same.
func kyvernoWith(folder string) func(context.Context, *bench, *devcluster.Cluster) (*started, error) {
	return func(ctx context.Context, b *bench, c *devcluster.Cluster) (*started, error) {
		if _, err := c.Install(ctx, "dev"); err != nil {
			return nil, err
		}
		var ports [2]string
		for i := range ports {
			port, err := c.FreePort()
			if err != nil {
				return nil, err
			}
			ports[i] = strconv.Itoa(port)
		}
		addr := "127.0.0.1:" + ports[0]
		p, err := c.Run("peer-kyverno", []string{
			"KYVERNO_NAMESPACE=kyverno", "KYVERNO_SERVICEACCOUNT_NAME=kyverno-admission-controller", "KYVERNO_DEPLOYMENT=kyverno-admission-controller",
			"KYVERNO_POD_NAME=kyverno-admission-controller-1", "KYVERNO_SVC=kyverno-svc", "INIT_CONFIG=kyverno", "METRICS_CONFIG=kyverno-metrics", "TUF_ROOT=" + b.dir,
		}, b.peers[kyvernoAdmission],
			"--kubeconfig="+c.Kubeconfig, "--serverIP="+addr, "--webhookServerHost=127.0.0.1", "--webhookServerPort="+ports[0], "--metricsPort="+ports[1],
			"--caSecretName=kyverno-svc.kyverno.svc.kyverno-tls-ca", "--tlsSecretName=kyverno-svc.kyverno.svc.kyverno-tls-pair", "--controllerRuntimeMetricsAddress=0",
			"--backgroundServiceAccountName=system:serviceaccount:kyverno:kyverno-background-controller",
			"--reportsServiceAccountName=system:serviceaccount:kyverno:kyverno-reports-controller",
			"--omitEvents=PolicyApplied,PolicySkipped", "--maxAdmissionReports=1000", "--enablePolicyException=false", "--v=2")
		if err != nil {
			return nil, err
		}
		s := b.kyvernoPolicies(c, folder)
		s.pid = p.PID()
		s.urls = func(ctx context.Context) ([]string, error) { return webhookURLs(ctx, c, folder, addr) }
		return s, c.Wait(ctx, "Kyverno's webhook configurations", func() error {
			select {
			case <-p.Done():
				return fmt.Errorf("it ended:\n%s", p.Tail(20))
			default:
			}
			_, err := c.Kubectl(ctx, nil, "get", "validatingwebhookconfiguration", "kyverno-policy-validating-webhook-cfg")
			return err
		})
	}
}
