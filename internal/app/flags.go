package app

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/ephor-dev/ephor/internal/certs"
)

// admissionFlags are the flags of the admission controller (control plane reference §1.5).
type admissionFlags struct {
	kubeconfig        string
	qps               float32
	burst             int
	resyncPeriod      time.Duration
	leaderRetryPeriod time.Duration
	caSecret          string
	tlsSecret         string
	keyAlgorithm      string
	algorithm         certs.Algorithm // from keyAlgorithm
	renewBefore       time.Duration
	unmanagedCerts    bool
	serverIP          string
	servicePort       int32
	host              string
	port              int
	webhookTimeout    int32
	admissionReports  bool
	auditWorkers      int
	auditCapacity     int
	forceIgnore       bool
	calls             callFlags
	exceptions        exceptionFlags
	events            eventFlags
	globals           globalFlags
	reportsAccount    string
	serving           servingFlags
	profile           profileFlags
	memory            memoryFlags
	log               logFlags
	observe           observeFlags
	noEffect          []string // the flags that were given in vain
}

// envForceIgnore is the environment's form of --forceFailurePolicyIgnore; the flag wins.
const envForceIgnore = "FLAG_FORCE_FAILURE_POLICY_IGNORE"

func (f *admissionFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "file that tells how to reach the API server; empty inside a cluster")
	fs.Float32Var(&f.qps, "clientRateLimitQPS", 100, "requests per second to the API server; 0 or less for no limit")
	fs.IntVar(&f.burst, "clientRateLimitBurst", 200, "requests to the API server that may come at once")
	fs.DurationVar(&f.resyncPeriod, "resyncPeriod", 15*time.Minute, "how often everything is looked at without news")
	fs.DurationVar(&f.leaderRetryPeriod, "leaderElectionRetryPeriod", 2*time.Second, "how often the lease is tried or renewed")
	fs.StringVar(&f.caSecret, "caSecretName", "", "Secret of the certificate authority (required)")
	fs.StringVar(&f.tlsSecret, "tlsSecretName", "", "Secret of the serving certificate (required)")
	fs.StringVar(&f.keyAlgorithm, "tlsKeyAlgorithm", "RSA", "algorithm of new keys: RSA, ECDSA or Ed25519")
	fs.DurationVar(&f.renewBefore, "renewBefore", 15*24*time.Hour, "how long before its end a certificate is renewed")
	fs.BoolVar(&f.unmanagedCerts, "disableCertManagerController", false, "leave the certificates to somebody else, such as cert-manager")
	fs.StringVar(&f.serverIP, "serverIP", "", "address at which the API server reaches a process outside of the cluster")
	fs.Int32Var(&f.servicePort, "servicePort", 443, "port of the Service, as written into the webhook configurations")
	fs.StringVar(&f.host, "webhookServerHost", "", "address to listen on; empty for all")
	fs.IntVar(&f.port, "webhookServerPort", 9443, "port to listen on")
	fs.Int32Var(&f.webhookTimeout, "webhookTimeout", 10, "timeout of the webhooks in seconds, 1 to 30, unless a policy asks for more")
	fs.BoolVar(&f.admissionReports, "admissionReports", true, "whether validation may have the side effect of a report")
	fs.IntVar(&f.auditWorkers, "maxAuditWorkers", 8, "goroutines that judge auditing rules after the answer")
	fs.IntVar(&f.auditCapacity, "maxAuditCapacity", 1000, "requests that may wait for them")
	fs.BoolVar(&f.forceIgnore, "forceFailurePolicyIgnore", false, "treat every failurePolicy as Ignore (environment: "+envForceIgnore+")")
	f.calls.register(fs)
	f.exceptions.register(fs)
	f.events.register(fs)
	f.globals.register(fs)
	fs.StringVar(&f.reportsAccount, "reportsServiceAccountName", "", "user name of the reports controller (system:serviceaccount:⟨namespace⟩:⟨name⟩); authors of policies are warned of kinds that it may not read")
	f.serving.register(fs)
	f.profile.register(fs)
	f.memory.register(fs)
	f.log.register(fs)
	f.observe.register(fs)
	registerKnown(fs, "A")
}

// complete checks what cannot be seen flag by flag.
func (f *admissionFlags) complete(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	f.noEffect = givenKnown(fs)
	var errs []error
	if f.caSecret == "" || f.tlsSecret == "" {
		errs = append(errs, errors.New("--caSecretName and --tlsSecretName are required"))
	}
	var err error
	if f.algorithm, err = certs.ParseAlgorithm(f.keyAlgorithm); err != nil {
		errs = append(errs, fmt.Errorf("--tlsKeyAlgorithm: %w", err))
	}
	if _, err := f.log.handler(); err != nil {
		errs = append(errs, err)
	}
	if f.webhookTimeout < 1 || f.webhookTimeout > 30 {
		errs = append(errs, fmt.Errorf("--webhookTimeout: %d is not within 1 and 30 seconds", f.webhookTimeout))
	}
	if f.leaderRetryPeriod <= 0 {
		errs = append(errs, errors.New("--leaderElectionRetryPeriod must be positive"))
	}
	if v, ok := lookup(envForceIgnore); ok && v != "" && !fs.Changed("forceFailurePolicyIgnore") {
		if f.forceIgnore, err = strconv.ParseBool(v); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", envForceIgnore, err))
		}
	}
	errs = append(errs, f.calls.complete(fs, lookup), f.serving.complete(fs, lookup), f.memory.complete(), f.globals.complete(), f.observe.complete())
	return errors.Join(errs...)
}
