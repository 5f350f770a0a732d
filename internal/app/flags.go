package app

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/app/results"
	"ephor.invalid/ephor/internal/control/serving"
	"ephor.invalid/ephor/internal/flagset"
)

// admissionFlags are the flags of the admission controller.
type admissionFlags struct {
	evaluatorFlags
	serving.Flags
	host             string
	port             int
	webhookTimeout   int32
	admissionReports bool
	generateNative   bool
	requireMutating  bool // the API server must serve MutatingAdmissionPolicies
	maxReports       int
	auditWorkers     int
	auditCapacity    int
	forceIgnore      bool
	reportsAccount   string
	serving          servingFlags
	decisions        results.DecisionFlags
	sender           channelFlags // for decisions
	webhooks         webhookFlags
}

// The environment variables of the switches.
const (
	envForceIgnore      = "FLAG_FORCE_FAILURE_POLICY_IGNORE"
	envGenerateNative   = "FLAG_GENERATE_VALIDATING_ADMISSION_POLICY"
	flagRequireMutating = "generateMutatingAdmissionPolicy"
	envRequireMutating  = "FLAG_GENERATE_MUTATING_ADMISSION_POLICY"
)

func (f *admissionFlags) register(fs *pflag.FlagSet) {
	f.evaluatorFlags.register(fs, admissionResponse)
	f.Flags.Register(fs)
	fs.StringVar(&f.host, "webhookServerHost", "", "address to listen on; empty for all addresses")
	fs.IntVar(&f.port, "webhookServerPort", 9443, "port to listen on")
	fs.Int32Var(&f.webhookTimeout, "webhookTimeout", 10, "timeout of the webhooks in seconds, 1 to 30; a policy can ask for more")
	flagset.Switch(fs, &f.generateNative, "generateValidatingAdmissionPolicy", envGenerateNative, true, "generate ValidatingAdmissionPolicies from ClusterPolicies with validate.cel.generate and from ValidatingPolicies with autogen.validatingAdmissionPolicy; false removes them")
	flagset.Switch(fs, &f.requireMutating, flagRequireMutating, envRequireMutating, false, "refuse to start if the API server does not serve MutatingAdmissionPolicies; they are generated from MutatingPolicies with autogen.mutatingAdmissionPolicy in any case")
	fs.BoolVar(&f.admissionReports, "admissionReports", true, "send the reports controller the results that its scans cannot find; the webhooks then declare a side effect")
	fs.IntVar(&f.maxReports, "maxAdmissionReports", 10_000, "maximum number of EphemeralReports that wait for the reports controller; above it, results are not reported")
	fs.IntVar(&f.auditWorkers, "maxAuditWorkers", 8, "number of goroutines that evaluate audit rules after the response")
	fs.IntVar(&f.auditCapacity, "maxAuditCapacity", 1000, "maximum number of requests whose audit rules wait for evaluation; they take at most 48 MiB together, whatever their number")
	flagset.Switch(fs, &f.forceIgnore, "forceFailurePolicyIgnore", envForceIgnore, false, "treat every failurePolicy as Ignore")
	fs.StringVar(&f.reportsAccount, "reportsServiceAccountName", "", "user name of the reports controller (system:serviceaccount:⟨namespace⟩:⟨name⟩); authors of policies get a warning about kinds that this user may not read")
	f.decisions.Register(fs)
	f.sender.register(fs, "decisions", "the admission controller")
	f.serving.register(fs)
	f.webhooks.register(fs)
	flagset.Accept(fs, "A")
}

// secretPaths reports whether webhook paths contain a secret segment. If an authority for client certificates is set, they need none,
// because the API server then presents a certificate.
func (f *admissionFlags) secretPaths() bool {
	return f.Paths.Secret == serving.PathsAlways || f.Paths.Secret == serving.PathsOn && f.serving.clientCA == ""
}

// complete checks the flags together.
func (f *admissionFlags) complete(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	errs := []error{flagset.ReadSwitches(fs, lookup), f.evaluatorFlags.complete(fs, lookup), f.Flags.Complete()}
	if f.webhookTimeout < 1 || f.webhookTimeout > 30 {
		errs = append(errs, fmt.Errorf("--webhookTimeout: %d is not within 1 and 30 seconds", f.webhookTimeout))
	}
	if f.maxReports < 0 {
		errs = append(errs, errors.New("--maxAdmissionReports must not be negative"))
	}
	return errors.Join(append(errs, f.decisions.Complete(), f.serving.complete())...)
}
