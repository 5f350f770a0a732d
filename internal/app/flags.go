package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/control/dashboard"
	"ephor.invalid/ephor/internal/control/decisions"
	"ephor.invalid/ephor/internal/control/events"
	"ephor.invalid/ephor/internal/control/globals"
	"ephor.invalid/ephor/internal/control/reports"
	"ephor.invalid/ephor/internal/control/scan"
	"ephor.invalid/ephor/internal/control/serving"
	"ephor.invalid/ephor/internal/control/status"
	"ephor.invalid/ephor/internal/failopen"
	"ephor.invalid/ephor/internal/flagset"
	"ephor.invalid/ephor/internal/lifecycle"
	"ephor.invalid/ephor/internal/lookups"
	"ephor.invalid/ephor/internal/telemetry"
)

// The names of the processes.
const (
	nameAdmission  = "admission"
	nameBackground = "background"
	nameReports    = "reports"
	nameCleanup    = "cleanup"
	nameAll        = "all" // the other four in one process
)

// flags are the settings of a process, whichever controllers it runs. A controller reads what all have and its own. What the process does not
// have keeps its zero value.
type flags struct {
	process string

	// What more than one controller has.
	kubeconfig        string
	qps               float32
	burst             int
	resyncPeriod      time.Duration
	leaderRetryPeriod time.Duration
	profile           lifecycle.Profiles
	memory            memoryFlags
	log               logFlags
	observe           telemetry.Flags
	noEffect          []string // the flags given by the user that have no effect
	calls             lookups.CallFlags
	registry          lookups.RegistryFlags
	globals           globals.Flags
	exceptions        status.ExceptionFlags
	events            events.Flags
	reporting         reports.Flags
	serving           serving.Flags
	clients           serving.ClientFlags
	probes            probeFlags
	admissionReports  bool // results of admission are sent, and merged into reports
	protectManaged    bool
	dumpPayload       bool

	admission  admissionFlags
	background backgroundFlags
	reports    reportsFlags
	cleanup    cleanupFlags
	without    []string // the controllers that the process all leaves out
}

// probeFlags configure the probes of a process without webhooks. Without a port there are none.
type probeFlags struct {
	host string
	port int
}

// admissionFlags are those of the admission controller.
type admissionFlags struct {
	host              string
	port              int
	webhookTimeout    int32
	generateNative    bool
	requireMutating   bool // the API server must serve MutatingAdmissionPolicies
	maxReports        int
	auditWorkers      int
	auditCapacity     int
	forceIgnore       bool
	reportsAccount    string
	backgroundAccount string
	decisions         decisions.Flags
	follow            bool // webhook configurations follow the policies
	excludeBootstrap  bool
	derive            bool
	subresources      bool
}

// backgroundFlags are those of the background controller.
type backgroundFlags struct {
	workers    int
	maxReports int
	interval   time.Duration
}

// reportsFlags are those of the reports controller.
type reportsFlags struct {
	scan        bool
	write       bool
	open        bool
	natives     scan.NativeFlags
	workers     int
	interval    time.Duration
	skipFilters bool
	checkKinds  bool
	aggregate   bool
	takers      int
	dashboard   dashboard.Flags
	decisions   decisions.StoreFlags
}

// cleanupFlags are those of the cleanup controller.
type cleanupFlags struct {
	host           string
	port           int
	deadManSeconds int
	ttlInterval    time.Duration
	maxDeletions   int
	// In the process all, the Service and the certificates of its server, which differ from those of admission.
	service, caSecret, tlsSecret, serverIP string
}

// The environment variables of the flags.
const (
	envForceIgnore     = "FLAG_FORCE_FAILURE_POLICY_IGNORE"
	envGenerateNative  = "FLAG_GENERATE_VALIDATING_ADMISSION_POLICY"
	envRequireMutating = "FLAG_GENERATE_MUTATING_ADMISSION_POLICY"
	envProtect         = "FLAG_PROTECT_MANAGED_RESOURCES"
	envScanInterval    = "BACKGROUND_SCAN_INTERVAL" // the pause between two rounds over existing objects
)

const flagRequireMutating = "generateMutatingAdmissionPolicy"

// runs reports whether a controller runs in this process.
func (f *flags) runs(controller string) bool {
	return f.process == controller || f.process == nameAll && !slices.Contains(f.without, controller)
}

// has reports whether a process has the flags of a controller. It has them all the same if it leaves the controller out.
func (f *flags) has(controllers ...string) bool {
	return f.process == nameAll || slices.Contains(controllers, f.process)
}

// register adds the flags of the process.
func (f *flags) register(fs *pflag.FlagSet) {
	response, qps, burst := int64(lookups.OtherResponse), float32(100), 200
	if f.has(nameAdmission) {
		response = lookups.AdmissionResponse
	}
	if f.process == nameReports {
		qps, burst = 300, 300
	}
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file for access to the API server; empty inside a cluster")
	fs.Float32Var(&f.qps, "clientRateLimitQPS", qps, "maximum number of requests per second to the API server; 0 or less for no limit")
	fs.IntVar(&f.burst, "clientRateLimitBurst", burst, "maximum burst of requests to the API server")
	fs.DurationVar(&f.resyncPeriod, "resyncPeriod", 15*time.Minute, "interval at which everything is reconciled even if nothing changed")
	fs.DurationVar(&f.leaderRetryPeriod, "leaderElectionRetryPeriod", 2*time.Second, "interval between attempts to acquire or renew the leader election lease")
	f.profile.Register(fs)
	f.memory.register(fs)
	f.log.register(fs)
	f.observe.Register(fs)
	f.calls.Register(fs, response)
	f.globals.Register(fs)
	f.exceptions.Register(fs)
	f.events.Register(fs)
	if f.has(nameAdmission, nameBackground, nameReports) {
		f.registry.Register(fs)
		f.reporting.Register(fs)
	}
	if f.has(nameAdmission, nameCleanup) {
		f.serving.Register(fs)
		usage := "prevent other clients from changing resources that are labelled as managed by kyverno"
		if f.process == nameCleanup {
			usage = "delete no resources that are labelled as managed by kyverno"
		}
		flagset.Switch(fs, &f.protectManaged, "protectManagedResources", envProtect, false, usage)
		fs.BoolVar(&f.dumpPayload, "dumpPayload", false, "log admission reviews and the responses, with --v=4 or higher; the contents of Secrets are omitted")
	}
	if f.process == nameBackground || f.process == nameReports {
		fs.StringVar(&f.probes.host, "healthHost", "", "address on which the health probes are served; empty for all addresses")
		fs.IntVar(&f.probes.port, "healthPort", 9080, "HTTP port of the health probes; 0 to serve none")
	}
	if f.has(nameAdmission) {
		f.registerAdmission(fs)
	}
	if f.has(nameBackground) {
		fs.IntVar(&f.background.workers, "genWorkers", 10, "number of UpdateRequests that are processed in parallel")
		fs.IntVar(&f.background.maxReports, "maxBackgroundReports", 10_000, "maximum number of EphemeralReports that wait for the reports controller; above it, results are not reported")
	}
	if f.has(nameReports) {
		f.registerReports(fs)
	}
	if f.has(nameCleanup) {
		f.registerCleanup(fs)
	}
	if f.process == nameAll {
		fs.StringSliceVar(&f.without, "without", nil, "controllers to leave out: "+strings.Join(optional, ", "))
	}
	for _, c := range []struct{ name, letter string }{{nameAdmission, "A"}, {nameBackground, "B"}, {nameReports, "R"}, {nameCleanup, "C"}} {
		if f.has(c.name) {
			flagset.Accept(fs, c.letter)
		}
	}
}

func (f *flags) registerAdmission(fs *pflag.FlagSet) {
	a := &f.admission
	f.clients.Register(fs)
	a.decisions.Register(fs)
	fs.StringVar(&a.host, "webhookServerHost", "", "address to listen on; empty for all addresses")
	fs.IntVar(&a.port, "webhookServerPort", 9443, "port to listen on")
	fs.Int32Var(&a.webhookTimeout, "webhookTimeout", 10, "timeout of the webhooks in seconds, 1 to 30; a policy can ask for more")
	flagset.Switch(fs, &a.generateNative, "generateValidatingAdmissionPolicy", envGenerateNative, true, "generate ValidatingAdmissionPolicies from ClusterPolicies with validate.cel.generate and from ValidatingPolicies with autogen.validatingAdmissionPolicy; false removes them")
	flagset.Switch(fs, &a.requireMutating, flagRequireMutating, envRequireMutating, false, "refuse to start if the API server does not serve MutatingAdmissionPolicies; they are generated from MutatingPolicies with autogen.mutatingAdmissionPolicy in any case")
	fs.BoolVar(&f.admissionReports, "admissionReports", true, "send the reports controller the results that its scans cannot find; the webhooks then declare a side effect")
	fs.IntVar(&a.maxReports, "maxAdmissionReports", 10_000, "maximum number of EphemeralReports that wait for the reports controller; above it, results are not reported")
	fs.IntVar(&a.auditWorkers, "maxAuditWorkers", 8, "number of goroutines that evaluate audit rules after the response")
	fs.IntVar(&a.auditCapacity, "maxAuditCapacity", 1000, "maximum number of requests whose audit rules wait for evaluation; they take at most 48 MiB together, whatever their number")
	flagset.Switch(fs, &a.forceIgnore, "forceFailurePolicyIgnore", envForceIgnore, false, "treat every failurePolicy as Ignore")
	fs.StringVar(&a.reportsAccount, "reportsServiceAccountName", "", "user name of the reports controller (system:serviceaccount:⟨namespace⟩:⟨name⟩); authors of policies get a warning about kinds that this user may not read")
	fs.StringVar(&a.backgroundAccount, "backgroundServiceAccountName", "", "user name of the background controller (system:serviceaccount:⟨namespace⟩:⟨name⟩); its requests do not trigger background work")
	fs.BoolVar(&a.follow, "autoUpdateWebhooks", true, "update the resource webhooks when policies change; when false, they are created once, for all requests, and not changed")
	fs.BoolVar(&a.excludeBootstrap, "excludeBootstrapResources", false, "never include Nodes and CertificateSigningRequests in webhooks that fail closed, even if a policy names them")
	fs.BoolVar(&a.derive, "deriveMatchConditions", true, "derive the match conditions of webhooks from the policies, so that the API server sends only requests to which a policy may apply")
	fs.BoolVar(&a.subresources, "podSubresources", true, "ask ValidatingPolicies and ImageValidatingPolicies on updates of Pods also about pods/ephemeralcontainers and pods/resize, even if they do not list them")
}

func (f *flags) registerReports(fs *pflag.FlagSet) {
	r := &f.reports
	fs.BoolVar(&r.scan, "backgroundScan", true, "evaluate existing objects")
	fs.BoolVar(&r.write, "policyReports", true, "write policy reports; when false, scans only produce events and metrics")
	r.natives.Register(fs)
	fs.BoolVar(&r.open, "openreportsEnabled", false, "write reports as openreports.io/v1alpha1")
	fs.IntVar(&r.workers, "backgroundScanWorkers", 2, "number of resources that are evaluated in parallel")
	fs.DurationVar(&r.interval, "backgroundScanInterval", time.Hour, "interval between evaluations of resources that have not changed")
	fs.BoolVar(&r.skipFilters, "skipResourceFilters", true, "scans also evaluate resources that the resourceFilters of the ConfigMap exclude from admission")
	fs.BoolVar(&r.checkKinds, "reportsCRDsSanityChecks", true, "exit at start when the CustomResourceDefinitions of reports are missing")
	fs.BoolVar(&r.aggregate, "aggregateReports", true, "include the results of admission and of background work in the reports")
	fs.IntVar(&r.takers, "aggregationWorkers", 10, "number of resources whose admission results are added to reports in parallel")
	r.dashboard.Register(fs)
	r.decisions.Register(fs)
	if f.process == nameReports {
		fs.BoolVar(&f.admissionReports, "admissionReports", true, "include the results of admission in the reports; without this and --backgroundScan there are no reports")
	}
}

func (f *flags) registerCleanup(fs *pflag.FlagSet) {
	c := &f.cleanup
	if f.process == nameAll {
		fs.StringVar(&c.service, "cleanupService", "kyverno-cleanup-controller", "Service of the cleanup controller; KYVERNO_SVC names that of the admission controller")
		fs.StringVar(&c.caSecret, "cleanupCASecretName", "", "Secret that holds the cleanup controller's certificate authority (required)")
		fs.StringVar(&c.tlsSecret, "cleanupTLSSecretName", "", "Secret that holds the cleanup controller's serving certificate (required)")
		fs.StringVar(&c.host, "cleanupServerHost", "", "address on which the cleanup controller's server listens; empty for all addresses")
		fs.IntVar(&c.port, "cleanupServerPort", 9444, "port of the cleanup controller's server")
		fs.StringVar(&c.serverIP, "cleanupServerIP", "", "address at which the API server reaches the cleanup controller's server; used together with --serverIP")
		fs.IntVar(&c.deadManSeconds, "deadManSeconds", 0, "not available: requires that `controller cleanup` runs as a separate process")
	} else {
		fs.StringVar(&c.host, "cleanupServerHost", "", "address to listen on; empty for all addresses")
		fs.IntVar(&c.port, "cleanupServerPort", 9443, "port to listen on")
		fs.IntVar(&c.deadManSeconds, "deadManSeconds", 0, fmt.Sprintf("make the resource webhooks that fail closed fail open after no replica has answered reviews for this many seconds (at least %.0f), "+
			"until a replica answers again; 0 to never do so", failopen.MinGrace.Seconds()))
	}
	fs.DurationVar(&c.ttlInterval, "ttlReconciliationInterval", time.Minute, "interval between checks for resources that are served and that the controller may delete because of TTL labels; with --maxDeletionsPerRun also the interval between deletions of expired objects")
	fs.IntVar(&c.maxDeletions, "maxDeletionsPerRun", 0, "maximum number of objects that one run of a cleanup policy deletes; a run that would delete more deletes nothing and reports that. With TTL labels, the limit applies per resource type and --ttlReconciliationInterval. 0 for no limit")
}

// optional are the controllers that the process all can run without.
var optional = []string{nameBackground, nameReports, nameCleanup}

// complete reads the environment, and checks the flags together.
func (f *flags) complete(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	f.noEffect = flagset.WithoutEffect(fs)
	_, err := f.log.handler()
	errs := []error{err, flagset.ReadSwitches(fs, lookup)}
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(f.leaderRetryPeriod <= 0, "--leaderElectionRetryPeriod must be positive")
	errs = append(errs, f.memory.complete(), f.observe.Complete(), f.calls.Complete(fs, lookup), f.globals.Complete())
	if f.has(nameAdmission, nameBackground, nameReports) {
		errs = append(errs, f.registry.Complete(), f.reporting.Complete())
	}
	if f.has(nameAdmission, nameCleanup) {
		errs = append(errs, f.serving.Complete())
	}
	if a := &f.admission; f.has(nameAdmission) {
		wrong(a.webhookTimeout < 1 || a.webhookTimeout > 30, "--webhookTimeout: %d is not within 1 and 30 seconds", a.webhookTimeout)
		wrong(a.maxReports < 0, "--maxAdmissionReports must not be negative")
		errs = append(errs, a.decisions.Complete(), f.clients.Complete())
	}
	if b := &f.background; f.has(nameBackground) {
		errs = append(errs, b.readInterval(lookup))
		wrong(b.workers < 1, "--genWorkers must be positive")
		wrong(b.maxReports < 0, "--maxBackgroundReports must not be negative")
	}
	if r := &f.reports; f.has(nameReports) {
		wrong(r.workers < 1, "--backgroundScanWorkers must be positive")
		wrong(r.interval <= 0, "--backgroundScanInterval must be positive")
		wrong(r.takers < 1, "--aggregationWorkers must be positive")
		errs = append(errs, r.dashboard.Complete(), r.decisions.Complete())
	}
	if c := &f.cleanup; f.has(nameCleanup) {
		wrong(c.ttlInterval <= 0, "--ttlReconciliationInterval must be positive")
		wrong(c.maxDeletions < 0, "--maxDeletionsPerRun must not be negative")
		wrong(f.process == nameCleanup && c.deadManSeconds != 0 && c.grace() < failopen.MinGrace,
			"--deadManSeconds: %d is less than %.0f, within which another replica takes over", c.deadManSeconds, failopen.MinGrace.Seconds())
	}
	if c := &f.cleanup; f.process == nameAll {
		for _, name := range f.without {
			wrong(!slices.Contains(optional, name), "--without: %q is not one of %s", name, strings.Join(optional, ", "))
		}
		wrong(f.runs(nameCleanup) && (c.caSecret == "" || c.tlsSecret == ""), "--cleanupCASecretName and --cleanupTLSSecretName are required")
		wrong(f.runs(nameCleanup) && (f.serving.ServerIP == "") != (c.serverIP == ""), "--serverIP and --cleanupServerIP go together: there are two servers")
		wrong(c.deadManSeconds != 0, "--deadManSeconds: the process that detects the loss of admission may not be the admission controller itself; run `controller cleanup` in a separate process")
	}
	return errors.Join(errs...)
}

func (f *backgroundFlags) readInterval(lookup func(string) (string, bool)) (err error) {
	f.interval = time.Hour
	v, ok := lookup(envScanInterval)
	if !ok || v == "" {
		return nil
	}
	if f.interval, err = time.ParseDuration(v); err == nil && f.interval <= 0 {
		err = errors.New("it is not positive")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", envScanInterval, err)
	}
	return nil
}

// scans reports whether the reports controller evaluates existing objects.
func (f *flags) scans() bool { return f.reports.scan && f.reporting.Reported("validate") }

// merges reports whether the reports controller merges the results of other controllers.
func (f *flags) merges() bool {
	return f.reports.write && f.reports.aggregate && (f.admissionReports || f.reports.scan)
}

func (f *cleanupFlags) grace() time.Duration { return time.Duration(f.deadManSeconds) * time.Second }

// serverOf returns the flags of a controller's server and its Service.
func (f *flags) serverOf(controller string, e env) (serving.Flags, string) {
	s, service := f.serving, e.service
	if f.process == nameAll && controller == nameCleanup {
		s.CASecret, s.TLSSecret, s.ServerIP, service = f.cleanup.caSecret, f.cleanup.tlsSecret, f.cleanup.serverIP, f.cleanup.service
	}
	return s, service
}
